-- Running calls are in the segments of the log, where programs before this one do not look.
update meta set value = value where name = 'log';
