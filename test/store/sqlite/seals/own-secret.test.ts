import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { openMacOfKey } from '../../../../src/base/mac.ts'
import { type GivenSecret, requireOwnSecret } from '../../../../src/store/own-secret.ts'
import { openInMemory } from '../../../../src/store/sqlite/migrations.ts'
import { readSealedData } from '../../../../src/store/sqlite.ts'
import { TEST_SECRETS } from '../../../support/ledger.ts'

const given = (more: Partial<GivenSecret> = {}): GivenSecret => ({
  findSource: () => 'GATEWAY_SECRET',
  length: 32,
  readMac: () => openMacOfKey('own'),
  ...more,
})
const other = given({ readMac: () => openMacOfKey('other') })
const openSealed = () => openInMemory({ ...TEST_SECRETS, mac: openMacOfKey('own') })

test('new data wants a secret that nobody guesses, and data from before the seals keeps its own', () => {
  const db = new Database(':memory:')
  expect(() => requireOwnSecret(readSealedData(db), given({ length: 31 }))).toThrow(
    'at least 32 characters',
  )
  expect(() => requireOwnSecret(readSealedData(db), given({ length: 32 }))).not.toThrow()
  db.run('create table meta (name text)')
  expect(() => requireOwnSecret(readSealedData(db), given({ length: 5 }))).not.toThrow()
})

test('sealed data takes its own secret, however short, and no other', () => {
  const db = openSealed()
  expect(() => requireOwnSecret(readSealedData(db), given({ length: 5 }))).not.toThrow()
  expect(() => requireOwnSecret(readSealedData(db), other)).toThrow(
    'another secret than GATEWAY_SECRET',
  )
  expect(() => requireOwnSecret(readSealedData(db), given({ findSource: () => null }))).toThrow(
    'is missing',
  )
})

test('one seal that is altered is for doctor, and so is a secret that cannot be read', () => {
  for (const table of ['seal_log', 'record_seals']) {
    const db = openSealed()
    db.run(`update ${table} set seal = 'altered'`)
    expect(() => requireOwnSecret(readSealedData(db), given())).not.toThrow()
    expect(() => requireOwnSecret(readSealedData(db), other)).toThrow('another secret')
    expect(() => requireOwnSecret(readSealedData(db), given({ readMac: () => null }))).not.toThrow()
  }
})
