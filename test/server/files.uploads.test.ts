import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { measureBestLoopUse } from '../support/event-loop.ts'
import { buildFileForm } from '../support/operations.ts'
import { type Listener, startLocalServer, startServer } from '../support/server.ts'

/** Lists the files below a directory that a gateway has for uploads. */
const listStored = (data: string) =>
  existsSync(join(data, 'files'))
    ? readdirSync(join(data, 'files'), { recursive: true, withFileTypes: true }).filter(entry =>
        entry.isFile(),
      )
    : []

/** What nobody may wait for, in milliseconds. The bound is 250; machines of tests are slow. */
const LONGEST = 500
const FORM = '--X\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'

/** Begins an upload that promises more than it sends. */
async function beginUpload(
  { url, inference_key }: Listener,
  sent: string,
): Promise<{ socket: Socket; closed: Promise<string> }> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  const closed = Promise.withResolvers<string>()
  let answer = ''
  socket.on('data', bytes => {
    answer += bytes.toString('latin1')
  })
  socket.on('error', () => undefined)
  socket.on('close', () => closed.resolve(answer))
  await new Promise<void>(resolve => socket.on('connect', () => resolve()))
  socket.write(
    `POST /api/v1/files HTTP/1.1\r\nHost: ${hostname}:${port}\r\n` +
      `Authorization: Bearer ${inference_key}\r\nContent-Length: 1000000\r\n` +
      `Content-Type: multipart/form-data; boundary=X\r\n\r\n${sent}`,
  )
  return { socket, closed: closed.promise }
}

/** Waits until a condition holds. The test's own time limit ends it. */
async function waitUntil(condition: () => boolean): Promise<void> {
  while (!condition()) await Bun.sleep(5)
}

describe('an upload that does not end', () => {
  test('and whose client leaves, leaves nothing', async () => {
    await using server = await startLocalServer({})
    const { socket } = await beginUpload(server, `${FORM}${'a'.repeat(300_000)}`)
    await waitUntil(() => listStored(server.data).length === 2)
    socket.destroy()
    await waitUntil(() => listStored(server.data).length === 0)
    expect((await (await server.fetch('/files')).json()).data).toEqual([])
  })

  test('and stalls is refused with 408, and leaves nothing', async () => {
    await using server = await startLocalServer({ timeouts: { body_seconds: 0.05 } })
    const { closed } = await beginUpload(server, FORM)
    expect(await closed).toStartWith('HTTP/1.1 408')
    await waitUntil(() => listStored(server.data).length === 0)
  })

  test('and is too large is refused with 413 before its bytes are read', async () => {
    await using server = await startLocalServer({})
    const response = await server.fetch('/files', {
      method: 'POST',
      headers: { 'content-type': 'multipart/form-data; boundary=X' },
      body: Buffer.alloc(106 * 1024 * 1024),
    })
    expect(response.status).toBe(413)
    expect(listStored(server.data)).toEqual([])
  })
})

test('a large file of text holds up nobody, and takes no memory', async () => {
  await using server = await startLocalServer({})
  const line = `${JSON.stringify({ name: 'Ada', values: [1, -2.5e3, true, null], text: 'Hello' })}\n`
  const content = Buffer.alloc(20 * 1024 * 1024, line)
  const whole = content.subarray(0, content.lastIndexOf(0x0a) + 1)
  const pieces = Array.from({ length: Math.ceil(whole.length / 65_536) }, (_, i) =>
    whole.subarray(i * 65_536, (i + 1) * 65_536),
  )
  async function* form() {
    yield Buffer.from(FORM)
    yield* pieces
    yield Buffer.from('\r\n--X--')
  }
  const { result, longest } = await measureBestLoopUse(LONGEST, async () => {
    const response = await server.fetch('/files', {
      method: 'POST',
      headers: { 'content-type': 'multipart/form-data; boundary=X' },
      body: form() as never,
    })
    return response.json()
  })
  expect(result).toMatchObject({ mime_type: 'application/x-ndjson', size_bytes: whole.length })
  expect(longest).toBeLessThan(LONGEST)
})

describe('S-13 a server that is killed', () => {
  test('during an upload has nothing of it after its next start, and all that was answered', async () => {
    await using server = await startServer()
    const kept = await (
      await server.fetch('/files', { method: 'POST', body: buildFileForm() })
    ).json()
    const { socket } = await beginUpload(server, `${FORM}${'a'.repeat(300_000)}`)
    await waitUntil(() => listStored(server.data).length === 3)
    await server.kill()
    socket.destroy()
    expect(listStored(server.data)).toHaveLength(3)
    const again = await startServer({ data: server.data })
    try {
      expect(listStored(server.data).map(({ name }) => `or_file_${name}`)).toEqual([kept.id])
      const response = await fetch(`${again.base}/files`, {
        headers: { authorization: `Bearer ${server.inference_key}` },
      })
      expect((await response.json()).data).toEqual([kept])
    } finally {
      await again.kill()
    }
  })
})
