import { prepare } from '../write.ts'

const DELETE_UNREFERRED = `delete from outbox
  where sequence in (select cast(value as bigint) from json_each(?1))
  and sequence not in (select sequence from deliveries
    where destination_id in (select destination_id from delivery_receivers)
    and sequence in (select cast(value as bigint) from json_each(?1)))
  and sequence not in (select sequence from failed_deliveries
    where sequence in (select cast(value as bigint) from json_each(?1)))`

/** Deletes those messages of the outbox that no destination waits for, or has refused. */
export const deleteUnreferred = (sequences: number[]) =>
  prepare(DELETE_UNREFERRED, JSON.stringify(sequences))
