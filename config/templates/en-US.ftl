# English as the United States write it: what differs from en.ftl.

date = { weekday }, { month } { $day }, { $year }
date-short = { weekday-short }, { month-short } { $day }, { $year }
time = { $hour12 }:{ $minute } { half }
same-day = { $date }, { $start } - { $end }

half =
    { $half ->
        [am] AM
       *[pm] PM
    }
