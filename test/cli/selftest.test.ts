import { expect, test } from 'bun:test'
import { runGateway } from '../support/server.ts'

test('gateway selftest tries each of the fifteen promises, and all hold', async () => {
  const { code, stdout, stderr } = await runGateway(['selftest', '--json'])
  expect(stderr).toBe('')
  const { data } = JSON.parse(stdout) as { data: { id: string; ok: boolean; found: string }[] }
  expect(data.filter(({ ok }) => !ok)).toEqual([])
  expect(data.map(({ id }) => id)).toEqual(Array.from({ length: 15 }, (_, i) => `P${i + 1}`))
  for (const { found } of data) expect(found).toMatch(/\d/)
  expect(code).toBe(0)
})
