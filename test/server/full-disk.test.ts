import { expect, test } from 'bun:test'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { PROGRAM, startServer } from '../support/server.ts'

/** In blocks of 512 bytes: no file grows beyond it, which fails as a full disk does. */
const LIMIT = 3_000

test('S-03 a full disk: management writes get 503, reads go on, and it recovers by itself', async () => {
  const limited = ['sh', '-c', `trap "" XFSZ; ulimit -S -f ${LIMIT}; exec "$@"`, 'sh']
  await using server = await startServer({ program: [...limited, ...PROGRAM] })
  const createKey = (n: number) =>
    fetch(`${server.base}/keys`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.management_key}` },
      body: JSON.stringify({ name: `key ${n}` }),
    })
  const listKeys = () =>
    fetch(`${server.base}/keys`, {
      headers: { authorization: `Bearer ${server.management_key}` },
    })
  let answer = await createKey(0)
  const made = new Set<string>()
  for (let n = 1; answer.status === 201 && n < 2_000; n++) {
    made.add((await answer.json()).data.hash)
    answer = await createKey(n)
  }
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '30'])
  expect((await answer.json()).error).toMatchObject({
    code: 503,
    message: 'The gateway cannot write its data now. Please try again.',
  })
  expect((await listKeys()).status).toBe(200)
  expect((await fetch(`${server.url}/health`)).status).toBe(200)

  const unlimited = Bun.spawnSync(['prlimit', '--fsize=unlimited', `--pid=${server.process.pid}`])
  expect(unlimited.exitCode).toBe(0)
  expect((await createKey(-1)).status).toBe(201)
  const { code, stderr: log } = await server.stop()
  expect(code).toBe(0)
  expect(log).toContain(join(server.data, 'gateway.db'))
  expect(log).toContain('"event":"store.failing"')
  expect(statSync(join(server.data, 'gateway.db')).size).toBeGreaterThan(0)
})
