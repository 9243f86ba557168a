# Japanese. What each message is for, and what it is given, stands in en.ftl.

## The message as a whole

subject = リマインダー: { $title } - { $when }
headline = { $relative }：{ $title }
moved = 日時変更：{ $relative }
line = { $label }：{ $value }
text-message = { $headline } - { $when }
text-message-where = { $text } - { $where }
private-event = 非公開の予定
no-title = （タイトルなし）
late = このお知らせは遅れて届いています。本来の通知時刻は{ $moment }でした。
more = 説明の続きはカレンダーでご確認ください。
why-event = このお知らせは、カレンダーの予定に設定されたアラームにもとづいてお送りしています。
why-task = このお知らせは、カレンダーのタスクに設定されたアラームにもとづいてお送りしています。
reminder-id = リマインダー { $id }

## Labels

label-when = 日時
label-due = 期限
label-local-time = 現地時間
label-where = 場所
label-link = リンク
label-organizer = 主催者
label-answer = ご出欠
label-status = 状況

status =
    { $status ->
        [accepted] 承諾
        [tentative] 仮承諾
        [declined] 辞退
        [needs-action] 未回答
        [delegated] 委任
        [completed] 完了
        [in-process] 進行中
       *[other] { $status }
    }

## How far from the moment of sending

days = { $count }日
hours = { $count }時間
minutes = { $count }分
two-units = { $larger }{ $smaller }

starts-in = { $distance }後に始まります
starts-now = まもなく始まります
started = { $distance }前に始まりました
ended = { $distance }前に終了しました
ended-now = たった今終了しました

day-in = { $distance }後
day-tomorrow = 明日
day-today = 本日
started-yesterday = 昨日始まりました
ended-yesterday = 昨日終了しました

due-in = 期限まであと{ $distance }です
due-now = 期限の時刻です
due-tomorrow = 明日が期限です
due-today = 本日が期限です
was-due = 期限を{ $distance }過ぎています
was-due-yesterday = 期限は昨日でした

## Times

date = { $year }年{ $month }月{ $day }日{ weekday }曜日
date-short = { $year }年{ $month }月{ $day }日({ weekday })
time = { $hour }:{ $minute }
moment = { $date } { $time }
same-day = { $date } { $start }～{ $end }
from-to = { $first }～{ $last }
in-zone = { $when } ({ $zone })

weekday =
    { $weekday ->
        [mon] 月
        [tue] 火
        [wed] 水
        [thu] 木
        [fri] 金
        [sat] 土
       *[sun] 日
    }

## Answers from the message

answer-intro = このリマインダーに回答する：
answer-acknowledge = 完了
answer-snooze-10m = 10分後にもう一度通知する
answer-snooze-1h = 1時間後にもう一度通知する
answer-snooze-until-start = 開始時にもう一度通知する
answer-mute = この予定の通知をすべてオフにする
answer-unmute = この予定の通知を再びオンにする
answer-title = リマインダーへの回答
answered-acknowledge = このリマインダーを完了にしました。
answered-snooze = もう一度お知らせします：{ $moment }
answered-mute = この予定の通知をすべてオフにしました。
answered-unmute = この予定の通知を再びオンにしました。
answer-next = 次の通知：{ $moment }
answer-no-next = この予定について、これ以降の通知はありません。
answer-started = すでに始まっているため、開始時の通知はできません。
answer-gone = このリンクは無効になりました。予定が削除されたか、終了してから長い時間が経っている可能性があります。

## 複数のリマインダーをまとめたメッセージ

reminders = リマインダー{ $count }件
digest-subject = { $reminders }、最初の予定: { $title }
digest-headline = { $reminders }をまとめてお知らせします
digest-more = ほか{ $count }件はカレンダーでご確認ください。
why-digest = このお知らせは、カレンダーの予定に設定されたアラームにもとづいてお送りしています。
text-message-digest = { $reminders }。最初: { $text }
