import { expect, test } from 'bun:test'

/*
 * Without a descriptor left Bun says that the other side refuses. The process may have 64 here, and
 * opens all of them before it asks.
 */
const SCRIPT = `
import { closeSync, openSync, writeSync } from 'node:fs'
import { Cancellation } from '${import.meta.dir}/../../../src/base/cancellation.ts'
import { openHttpClient } from '${import.meta.dir}/../../../src/network/egress.ts'
const server = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
const client = openHttpClient({ connectMilliseconds: 5_000, idleMilliseconds: 5_000 })
const url = 'http://127.0.0.1:' + server.port + '/'
const request = { method: 'GET', url, headers: {}, body: '', address: '127.0.0.1' }
const held = []
try { for (;;) held.push(openSync('/dev/null', 'r')) } catch {}
const failure = await client.send(request, new Cancellation()).catch(thrown => thrown)
for (const descriptor of held) closeSync(descriptor)
writeSync(1, String(failure.code))
process.exit(0)
`

test('a process without a descriptor says so, and blames nobody else', async () => {
  const child = Bun.spawn(['sh', '-c', 'ulimit -n 64; exec "$0" run -', process.execPath], {
    stdin: new Blob([SCRIPT]),
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [told, complaint] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  expect([told, complaint]).toEqual(['EMFILE', ''])
})
