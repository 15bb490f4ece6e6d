import { afterEach, expect, test } from 'bun:test'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { request } from './raw-client.ts'

let server: Server | undefined

afterEach(() => server?.close())

/** Listens with a handler for each connection, and returns the URL. */
async function listen(handle: (socket: Socket) => void): Promise<string> {
  const listening = createServer({ allowHalfOpen: true }, handle)
  server = listening
  await new Promise<void>(resolve => listening.listen(0, '127.0.0.1', () => resolve()))
  return `http://127.0.0.1:${(listening.address() as AddressInfo).port}/here?a=1`
}

const answering = (text: string) => listen(socket => socket.once('data', () => socket.write(text)))

/** Returns the URL, and the bytes of a request received so far. */
async function recording() {
  const received: string[] = []
  const url = await listen(socket => {
    socket.on('data', bytes => received.push(bytes.toString()))
    socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'))
  })
  return { url, received }
}

test('a request is a GET of the URL by default', async () => {
  const { url, received } = await recording()
  await request(url).outcome()
  expect(received.join('')).toBe(
    `GET /here?a=1 HTTP/1.1\r\nhost: ${new URL(url).host}\r\nconnection: close\r\n\r\n`,
  )
})

test('JSON is posted with its type and its length in bytes', async () => {
  const { url, received } = await recording()
  await request(url, {
    path: '/there',
    json: { a: 'é' },
    headers: { authorization: 'Bearer k' },
  }).outcome()
  expect(received.join('')).toStartWith('POST /there HTTP/1.1\r\n')
  expect(received.join('')).toContain(
    'content-type: application/json\r\ncontent-length: 10\r\nauthorization: Bearer k\r\n',
  )
  expect(received.join('')).toEndWith('\r\n\r\n{"a":"é"}')
})

test('raw bytes are sent unchanged', async () => {
  const { url, received } = await recording()
  await request(url, { raw: 'NONSENSE\n\n' }).outcome()
  expect(received.join('')).toBe('NONSENSE\n\n')
})

test('an answer is complete at its length, even if the connection stays open', async () => {
  const call = request(await answering('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi'))
  expect(await call.outcome()).toMatchObject({
    status: 200,
    body: 'hi',
    complete: true,
    ended: 'clean',
  })
  call.hangUp('rst')
})

test('an answer is complete when its last chunk and trailers have come', async () => {
  const call = request(
    await answering(
      'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx: y\r\n\r\n',
    ),
  )
  expect(await call.outcome()).toMatchObject({ body: 'hi', complete: true, ended: 'clean' })
  call.hangUp('rst')
})

test('an interim answer is skipped', async () => {
  const call = request(
    await answering('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n'),
  )
  expect(await call.outcome()).toMatchObject({ status: 204, body: '', complete: true })
  call.hangUp('rst')
})

test('an answer to HEAD has no body, whatever its length says', async () => {
  const call = request(await answering('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n'), {
    method: 'HEAD',
  })
  expect(await call.outcome()).toMatchObject({ status: 200, body: '', complete: true })
  call.hangUp('rst')
})

test('a chunk size that is not a number makes a truncated body', async () => {
  const url = await listen(socket =>
    socket.end('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\nzz\r\n'),
  )
  expect(await request(url).outcome()).toMatchObject({
    body: 'hi',
    complete: false,
    ended: 'clean',
  })
})

test('sees reports what was read if the text never comes', async () => {
  const call = request(await listen(socket => socket.end('HTTP/1.1 200 OK\r\n\r\n')))
  expect(call.sees('418')).rejects.toThrow('without "418". Read: HTTP/1.1 200 OK')
  await call.outcome()
})

test.each(['fin', 'rst'] as const)('hangUp with %s does exactly that on the wire', async how => {
  const heard = Promise.withResolvers<string>()
  const url = await listen(socket => {
    socket.once('data', () => call.hangUp(how))
    socket.on('end', () => socket.end(() => heard.resolve('fin')))
    socket.on('error', (error: NodeJS.ErrnoException) =>
      heard.resolve(error.code === 'ECONNRESET' ? 'rst' : String(error.code)),
    )
  })
  const call = request(url)
  expect(await heard.promise).toBe(how)
  expect(await call.outcome()).toMatchObject({
    complete: false,
    ended: how === 'rst' ? 'reset' : 'clean',
  })
})

test('after hangUp with fin the answer is still read', async () => {
  const url = await listen(socket => {
    socket.resume()
    socket.on('end', () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi'))
  })
  const call = request(url)
  call.hangUp('fin')
  expect(await call.outcome()).toMatchObject({ status: 200, body: 'hi' })
})
