import {
  CALLS,
  checkRemembered,
  type IdempotencyStore,
  MOST_REMEMBERED,
  SECRETS,
} from '../../../src/resources/idempotency.ts'
import type { Connection } from './memory.ts'

/** Answers to repeated changes in memory. */
export const createMemoryIdempotencyStore = (connection: Connection): IdempotencyStore => ({
  begin: (answer, before) =>
    connection.write(({ idempotency }) => {
      for (const { name } of idempotency.all(({ created_at }) => created_at <= before))
        idempotency.remove(name)
      const first = idempotency.get(answer.name)
      if (!first) {
        if (answer.name.startsWith(CALLS))
          for (const { name } of idempotency.all().slice(0, 1 - MOST_REMEMBERED))
            if (name.startsWith(CALLS)) idempotency.remove(name)
        checkRemembered(idempotency.all().length)
        idempotency.insert(answer.name, answer)
      }
      return first
    }),
  finish: (name, status, sealed) =>
    connection.write(({ idempotency }) => idempotency.update(name, { status, sealed })),
  find: name => connection.read(({ idempotency }) => idempotency.get(name)),
  remove: name => connection.write(({ idempotency }) => idempotency.remove(name)),
  removeSecrets: before =>
    connection.write(({ idempotency }) => {
      for (const { name, created_at } of idempotency.all())
        if (name.startsWith(SECRETS) && created_at <= before) idempotency.remove(name)
    }),
})
