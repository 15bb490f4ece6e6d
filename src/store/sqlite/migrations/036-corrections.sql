-- A correction of what calls were charged has money and no call. The sums have counted one for each
-- that is on record, in the group of the calls that it corrects: the largest of that hour, as the
-- numbers of apps do not follow from a record.
alter table evicted_days add column corrections integer not null default 0;

create temp table counted_corrections as
select unixepoch(substr(c.settled_at, 1, 19)) / 3600 as hour, c.is_byok,
  (select h.group_id from usage_hours as h join usage_groups as g on g.id = h.group_id
    where h.start = unixepoch(substr(c.settled_at, 1, 19)) / 3600
      and g.workspace_id = c.workspace_id and g.key_hash = coalesce(c.key_hash, '')
      and g.user_id = c.user_id and g.model = c.model
      and g.provider_name = coalesce(c.provider_name, '')
      and g.endpoint_id = iif(json_valid(c.provider_responses),
        coalesce(json_extract(c.provider_responses, '$[#-1].endpoint_id'), ''), '')
      and g.is_byok = c.is_byok
    order by h.calls desc limit 1) as group_id
from generations as c
where c.api_type = 'correction' and c.rowid <= (select last_row from rollup_cursor);

create temp table counted_groups as
select c.hour, c.hour / 24 as day, c.group_id, c.is_byok, count(*) as calls,
  (select e.id from usage_groups as e where e.workspace_id = g.workspace_id and e.key_hash = ''
    and e.user_id = '' and e.model = g.model and e.provider_name = g.provider_name
    and e.endpoint_id = g.endpoint_id and e.app_id = 0 and e.is_byok = g.is_byok) as endpoint_id
from counted_corrections as c join usage_groups as g on g.id = c.group_id
group by c.hour, c.group_id, c.is_byok;

update usage_hours set calls = usage_hours.calls - c.calls,
  byok_calls = byok_calls - c.calls * c.is_byok
from counted_groups as c where start = c.hour and usage_hours.group_id = c.group_id;

update usage_days set calls = usage_days.calls - c.calls,
  byok_calls = byok_calls - c.calls * c.is_byok
from (select day, group_id, is_byok, sum(calls) as calls from counted_groups group by 1, 2, 3) as c
where start = c.day and usage_days.group_id = c.group_id;

update usage_endpoint_days set calls = usage_endpoint_days.calls - c.calls,
  byok_calls = byok_calls - c.calls * c.is_byok
from (select day, endpoint_id, is_byok, sum(calls) as calls from counted_groups
  group by 1, 2, 3) as c
where start = c.day and usage_endpoint_days.group_id = c.endpoint_id;

drop table counted_groups;
drop table counted_corrections;
