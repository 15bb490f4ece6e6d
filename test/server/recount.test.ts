import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LONG, SEED } from '../support/random.ts'
import { recount } from '../support/recount.ts'

const data = mkdtempSync(join(tmpdir(), 'gateway-recount-'))
afterAll(() => rmSync(data, { recursive: true, force: true }))

const CALLS = LONG ? 3_000 : 120

test(
  `${CALLS} mixed calls over six weeks come to the same on every surface`,
  async () => {
    expect(await recount(CALLS, SEED, data)).toEqual([])
  },
  LONG ? 600_000 : 120_000,
)
