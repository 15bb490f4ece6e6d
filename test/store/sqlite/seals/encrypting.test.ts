import { expect, test } from 'bun:test'
import { openSeal } from '../../../../src/base/seal.ts'
import type { RecordSecrets } from '../../../../src/limits/seals.ts'
import { encryptAgain } from '../../../../src/store/sql/seals/resealing.ts'
import { openInMemory } from '../../../../src/store/sqlite/migrations.ts'
import { takeSteps } from '../../../../src/store/sqlite/reader.ts'
import { TEST_SECRETS } from '../../../support/ledger.ts'

const withSeal = (byte: number): RecordSecrets => {
  const seal = openSeal(new Uint8Array(32).fill(byte), 'destinations')
  return { ...TEST_SECRETS, destinationSeal: () => seal }
}

test('messages that wait are sealed with the new secret, those in bundles each by itself', () => {
  const [previous, current, other] = [withSeal(1), withSeal(2), withSeal(3)]
  const db = openInMemory(previous)
  const seal = (secrets: RecordSecrets, id: string) =>
    secrets.destinationSeal().seal(`{"of":"${id}"}`, id, crypto.getRandomValues(new Uint8Array(12)))
  const lost = seal(other, 'd')
  const insert = db.query(
    `insert into outbox (topic, generation_id, payload, created_at, calls) values ('trace', ?, ?, '', ?)`,
  )
  insert.run('a', seal(previous, 'a'), 1)
  insert.run('b', '{"of":"b"}', 1)
  insert.run('c\nd\ne\nf', ['{"of":"c"}', lost, seal(previous, 'e'), '{"of":"f"}'].join('\n'), 4)
  takeSteps(db, encryptAgain(current, previous))
  const rows = db.query('select payload from outbox order by sequence').all() as {
    payload: string
  }[]
  const lines = rows.flatMap(({ payload }) => payload.split('\n'))
  const opened = lines.map((line, i) => current.destinationSeal().open(line, 'abcdef'[i] ?? ''))
  expect(opened).toEqual(['{"of":"a"}', undefined, undefined, undefined, '{"of":"e"}', undefined])
  expect([lines[1], lines[2], lines[3], lines[5]]).toEqual([
    ...['{"of":"b"}', '{"of":"c"}', lost, '{"of":"f"}'],
  ])
  db.close()
})
