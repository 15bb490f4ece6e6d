-- An index that each call with a destination had to write, and that little read: its readers look
-- at the few destinations instead.
drop index deliveries_by_sequence;

-- The destinations that something waits for: one step of the primary key for each.
create view delivery_receivers as
with recursive receivers (destination_id) as (
  select min(destination_id) from deliveries
  union all
  select (select min(d.destination_id) from deliveries as d
    where d.destination_id > receivers.destination_id)
  from receivers where destination_id is not null
)
select destination_id from receivers where destination_id is not null;
