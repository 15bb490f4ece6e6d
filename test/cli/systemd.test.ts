import { afterAll, expect, test } from 'bun:test'
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PROGRAM, readAddress } from '../support/server.ts'
import { openSocket } from '../support/systemd.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-systemd-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const onLinux = test.skipIf(process.platform !== 'linux')
let directories = 0

/** Starts a server as systemd does, with this descriptor as the first that is passed. */
function start(descriptor: number, env: Record<string, string>, args: string[] = []) {
  const data = join(root, String(++directories))
  const command = [...PROGRAM, 'serve', '--data', data, '--log', 'json', ...args]
  // The number of the process is known to itself first.
  const script = `LISTEN_PID=\${LISTEN_PID-$$} exec "$0" "$@"`
  const child = Bun.spawn(['sh', '-c', script, ...command], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe', descriptor],
  })
  return { child, stderr: new Response(child.stderr).text() }
}

onLinux('serves on the socket that systemd has opened, and tells when it is ready', async () => {
  const { calls, opener, port, descriptor } = await openSocket()
  const path = join(root, 'notify')
  const mailbox = calls.openMailbox(path)
  // It waits in the queue of the socket until the server accepts it.
  const early = fetch(`http://127.0.0.1:${port}/health`, { keepalive: false })
  const { child, stderr } = start(descriptor, { LISTEN_FDS: '1', NOTIFY_SOCKET: path })
  try {
    expect(await readAddress(child, stderr)).toBe(`http://127.0.0.1:${port}`)
    expect((await early).status).toBe(200)
    const again = await fetch(`http://127.0.0.1:${port}/ready`, { keepalive: false })
    expect(again.status).toBe(200)
    expect(mailbox.receive()?.text).toBe(`READY=1\nMAINPID=${child.pid}`)
    child.kill('SIGTERM')
    expect(await child.exited).toBe(0)
    expect(mailbox.receive()?.text).toBe('STOPPING=1')
  } finally {
    child.kill('SIGKILL')
    mailbox.close()
    await opener.stop(true)
  }
})

onLinux('sockets for another process are left alone', async () => {
  const null3 = openSync('/dev/null', 'r')
  const { child, stderr } = start(null3, { LISTEN_FDS: '1', LISTEN_PID: '1' }, ['--port', '0'])
  try {
    const url = await readAddress(child, stderr)
    expect((await fetch(`${url}/health`, { keepalive: false })).status).toBe(200)
  } finally {
    child.kill('SIGKILL')
    closeSync(null3)
  }
})

onLinux.each([
  ['no number', { LISTEN_FDS: 'abc' }, [], 'LISTEN_FDS=abc: expected 1'],
  ['none', { LISTEN_FDS: '0' }, [], 'LISTEN_FDS=0: expected 1'],
  ['a negative number', { LISTEN_FDS: '-1' }, [], 'LISTEN_FDS=-1: expected 1'],
  ['two sockets', { LISTEN_FDS: '2' }, [], 'LISTEN_FDS=2: expected 1'],
  ['a file', { LISTEN_FDS: '1' }, [], 'descriptor 3 is no TCP socket that listens'],
  ['an address as well', { LISTEN_FDS: '1' }, ['--port', '8080'], '--port: systemd has opened'],
  ['a variable as well', { LISTEN_FDS: '1', GATEWAY_HOST: '::1' }, [], 'GATEWAY_HOST: systemd has'],
] as const)('%s in place of one socket is an error', async (_, env, args, message) => {
  const descriptor = openSync('/dev/null', 'r')
  try {
    const { child, stderr } = start(descriptor, env, [...args])
    expect(await child.exited).toBe(1)
    expect(await stderr).toStartWith('gateway: ')
    expect(await stderr).toContain(message)
  } finally {
    closeSync(descriptor)
  }
})
