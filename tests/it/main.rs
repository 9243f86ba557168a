//! What several modules and real servers do together: one binary, one module per way through the house.

mod mail;
