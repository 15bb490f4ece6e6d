import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer, type TLSSocket } from 'node:tls'
import { Cancellation } from '../../../src/base/cancellation.ts'
import { ConnectionFailed, openHttpClient } from '../../../src/network/egress.ts'
import { type IncomingResponse, MalformedResponse } from '../../../src/network/http/exchange.ts'
import { body, chunk, head } from '../../support/upstream.ts'
import { until } from './raw-server.ts'

const MEBIBYTE = 1024 * 1024
const HAS_OPENSSL = Bun.which('openssl') !== null

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'gateway-tls-'))
  if (HAS_OPENSSL) await makeCertificates()
})

afterAll(() => rm(folder, { recursive: true }))

const KEY = ['-newkey', 'rsa:2048', '-nodes']

async function makeCertificates() {
  await openssl(
    'req',
    '-x509',
    ...KEY,
    '-keyout',
    'ca.key',
    '-out',
    'ca.pem',
    '-subj',
    '/CN=Test authority',
    '-days',
    '2',
  )
  await openssl(
    'req',
    '-x509',
    ...KEY,
    '-keyout',
    'stranger.key',
    '-out',
    'stranger.pem',
    '-subj',
    '/CN=localhost',
    '-days',
    '2',
  )
  await makeCertificate('own', 'DNS:localhost,IP:127.0.0.1', '2')
  await makeCertificate('wrong-name', 'DNS:elsewhere.example,DNS:*.localhost,IP:127.0.0.2', '2')
  await makeCertificate('name-only', 'DNS:localhost', '2')
  await makeCertificate('address-only', 'IP:127.0.0.1', '2', 'elsewhere.example')
  await makeCertificate('expired', 'DNS:localhost,IP:127.0.0.1', '-1')
}

async function makeCertificate(name: string, names: string, days: string, subject = 'localhost') {
  await writeFile(join(folder, `${name}.ext`), `subjectAltName=${names}\n`)
  await openssl(
    'req',
    ...KEY,
    '-keyout',
    `${name}.key`,
    '-out',
    `${name}.csr`,
    '-subj',
    `/CN=${subject}`,
  )
  const signed = [
    '-CA',
    'ca.pem',
    '-CAkey',
    'ca.key',
    '-CAcreateserial',
    '-days',
    days,
    '-extfile',
    `${name}.ext`,
  ]
  await openssl('x509', '-req', '-in', `${name}.csr`, '-out', `${name}.pem`, ...signed)
}

async function openssl(...command: string[]) {
  const run = Bun.spawn(['openssl', ...command], { cwd: folder, stdout: 'ignore', stderr: 'pipe' })
  if ((await run.exited) !== 0) throw new Error(await new Response(run.stderr).text())
}

const fileOf = (name: string) => readFile(join(folder, name), 'utf8')

interface TlsServer extends AsyncDisposable {
  port: number
  /** The received bytes as text, the number of connections, and the last one's server name. */
  readonly received: string
  readonly accepted: number
  readonly open: number
  readonly name: string | false | null
}

/** Starts a TLS server that handles connections as a test specifies; `wire` is the TCP socket. */
async function startTlsServer(
  certificate: string,
  converse: (socket: TLSSocket, wire: Socket) => void,
): Promise<TlsServer> {
  const wires: Socket[] = []
  let received = ''
  let name: string | false | null = null
  const keys = { key: await fileOf(`${certificate}.key`), cert: await fileOf(`${certificate}.pem`) }
  const server = createServer(keys, socket => {
    name = socket.servername
    socket.on('error', () => socket.destroy())
    socket.on('data', bytes => {
      received += bytes.toString('latin1')
    })
    converse(socket, wires[wires.length - 1] ?? socket)
  })
  server.on('connection', wire => wires.push(wire))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
  return {
    port: (server.address() as AddressInfo).port,
    get received() {
      return received
    },
    get accepted() {
      return wires.length
    },
    get open() {
      return wires.filter(wire => !wire.destroyed).length
    },
    get name() {
      return name
    },
    async [Symbol.asyncDispose]() {
      for (const wire of wires) wire.destroy()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

/** Sends one request to a server. By default it trusts the test’s own authority. */
async function ask(
  { port }: TlsServer,
  { host = 'localhost', ca = 'ca.pem', body = '{}', address = '' } = {},
): Promise<IncomingResponse> {
  const http = openHttpClient({
    connectMilliseconds: 5_000,
    ...(ca === '' ? {} : { ca: await fileOf(ca) }),
  })
  const request = {
    method: 'POST',
    url: `https://${host}:${port}/v1`,
    headers: {},
    body,
    ...(address === '' ? {} : { address }),
  }
  return http.send(request, new Cancellation())
}

const textOf = async (incoming: IncomingResponse) => incoming.text(64 * MEBIBYTE, () => undefined)

async function rejection(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => expect.unreachable('It was not rejected'),
    reason => reason,
  )
}

describe.skipIf(!HAS_OPENSSL)('over TLS (needs openssl)', () => {
  const fine = (socket: TLSSocket) =>
    socket.on('data', () => socket.write(body('text/plain', 'fine')))

  test.each(['localhost', '127.0.0.1'])(
    'a host with a trusted certificate is called: %s',
    async host => {
      await using server = await startTlsServer('own', fine)
      const answer = await ask(server, { host })
      expect([answer.status, await textOf(answer)]).toEqual([200, 'fine'])
      expect(server.received).toStartWith(`POST /v1 HTTP/1.1\r\nhost: ${host}:${server.port}\r\n`)
    },
  )

  test('the requested name is sent to the host', async () => {
    await using server = await startTlsServer('own', fine)
    await textOf(await ask(server))
    expect(server.name).toBe('localhost')
  })

  test('a host called at an address gets its name, and its certificate must match', async () => {
    await using server = await startTlsServer('name-only', fine)
    expect(await textOf(await ask(server, { address: '127.0.0.1' }))).toBe('fine')
    expect(server.name).toBe('localhost')
    expect(server.received).toStartWith(`POST /v1 HTTP/1.1\r\nhost: localhost:${server.port}\r\n`)
  })

  test('a host called at an address is not trusted for the address', async () => {
    await using server = await startTlsServer('address-only', fine)
    const failure = await rejection(ask(server, { address: '127.0.0.1' }))
    expect(failure).toMatchObject({ code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
    expect(server.received).toBe('')
  })

  test('8 MiB arrive completely in both directions', async () => {
    const large = Array.from({ length: MEBIBYTE }, (_, i) => i.toString(36).padStart(8)).join('')
    await using server = await startTlsServer('own', socket => {
      socket.once('data', () =>
        until(() => server.received.endsWith(large.slice(-64))).then(() =>
          socket.write(body('text/plain', large)),
        ),
      )
    })
    const text = await textOf(await ask(server, { body: large }))
    expect(text === large).toBe(true)
    expect(server.received.endsWith(`\r\n\r\n${large}`)).toBe(true)
  })

  test('a connection carries one request after the other', async () => {
    await using server = await startTlsServer('own', socket =>
      socket.on('data', () =>
        socket.write(body('text/plain', 'fine', { headers: { connection: 'keep-alive' } })),
      ),
    )
    const http = openHttpClient({ connectMilliseconds: 5_000, ca: await fileOf('ca.pem') })
    const request = {
      method: 'POST',
      url: `https://localhost:${server.port}/`,
      headers: {},
      body: '',
    }
    for (const _ of [1, 2, 3])
      expect(await textOf(await http.send(request, new Cancellation()))).toBe('fine')
    expect(server.accepted).toBe(1)
    http.close()
    await until(() => server.open === 0)
  })

  const UNTRUSTED: [name: string, certificate: string, ca: string, code: string, host?: string][] =
    [
      ['an authority nobody trusts', 'own', '', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
      [
        'another authority than the trusted one',
        'own',
        'stranger.pem',
        'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
      ],
      ['itself only', 'stranger', 'ca.pem', 'DEPTH_ZERO_SELF_SIGNED_CERT'],
      ['another name', 'wrong-name', 'ca.pem', 'ERR_TLS_CERT_ALTNAME_INVALID'],
      ['another address', 'wrong-name', 'ca.pem', 'ERR_TLS_CERT_ALTNAME_INVALID', '127.0.0.1'],
      ['a time that is over', 'expired', 'ca.pem', 'CERT_HAS_EXPIRED'],
    ]
  test.each(UNTRUSTED)(
    'U-10 a certificate of %s is refused before a byte of the request is sent',
    async (_, certificate, ca, code, host = 'localhost') => {
      await using server = await startTlsServer(certificate, fine)
      const failure = await rejection(ask(server, { ca, host }))
      expect(failure).toBeInstanceOf(ConnectionFailed)
      expect((failure as ConnectionFailed).code).toBe(code)
      await until(() => server.accepted === 1 && server.open === 0)
      expect(server.received).toBe('')
    },
  )

  // Not with a body that ends with the connection: the platform does not tell whether TLS or only
  // TCP was closed.
  const CUT: [name: string, bytes: string][] = [
    ['its head', 'HTTP/1.1 200 OK\r\ncontent-le'],
    ['its length', `${head(200, { 'content-length': '9' })}half`],
    ['a chunk', `${head(200, { 'transfer-encoding': 'chunked' })}9\r\nhalf`],
    ['its trailer', `${head(200, { 'transfer-encoding': 'chunked' })}${chunk('half')}0\r\n`],
  ]
  test.each(CUT)(
    'an answer cut in %s by the connection underneath is an error',
    async (_, bytes) => {
      await using server = await startTlsServer('own', (socket, wire) =>
        socket.once('data', () => socket.write(bytes, () => wire.destroy())),
      )
      expect(await rejection(ask(server).then(textOf))).toBeInstanceOf(MalformedResponse)
    },
  )

  test.each(CUT)('an answer cut in %s by a reset is an error', async (_, bytes) => {
    await using server = await startTlsServer('own', (socket, wire) =>
      socket.once('data', () => socket.write(bytes, () => wire.resetAndDestroy())),
    )
    expect(await rejection(ask(server).then(textOf))).toBeInstanceOf(ConnectionFailed)
  })

  test.each(CUT)('an answer cut in %s by a clean close is an error', async (_, bytes) => {
    await using server = await startTlsServer('own', socket =>
      socket.once('data', () => socket.end(bytes)),
    )
    expect(await rejection(ask(server).then(textOf))).toBeInstanceOf(MalformedResponse)
  })
})
