import { test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { waitUntil } from '../../support/chat.ts'
import { startLocalServer } from '../../support/server.ts'
import { StubbornClient } from '../../support/stubborn-client.ts'

/*
 * Issue: "TCP keep-alive on accepted sockets, so that vanished clients give their descriptors back".
 * Linux shows the timer of each connection in /proc/net/tcp.
 */

/** The timer of a connection that waits until it asks whether its peer is there: proc(5). */
const KEEPALIVE = '02'

const toHex = (port: number) => `:${port.toString(16).toUpperCase().padStart(4, '0')}`

const readTimer = (local: number, remote: number): string | undefined =>
  readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map(line => line.trim().split(/\s+/))
    .find(row => row[1]?.endsWith(toHex(local)) && row[2]?.endsWith(toHex(remote)))?.[5]
    ?.slice(0, 2)

test.skipIf(process.platform !== 'linux')(
  'the system asks silent clients whether they are still there',
  async () => {
    await using server = await startLocalServer({})
    // The server sets it at its first look, a moment after the start.
    await waitUntil(async () => {
      using client = new StubbornClient(server.url)
      client.sendHead('GET', '/health')
      await client.sees('200 OK')
      return readTimer(Number(new URL(server.url).port), client.port ?? 0) === KEEPALIVE
    })
  },
)
