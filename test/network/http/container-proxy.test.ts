import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { existsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Gateway } from '../../../src/app/gateway.ts'
import type { ContainerDoor } from '../../../src/network/containers/network.ts'
import { openContainerNetwork } from '../../../src/network/http/container-proxy.ts'
import { testGateway } from '../../support/gateway.ts'

/** Writes what a socket does not take at once when it is ready again. */
class Sender {
  #left = Buffer.alloc(0)

  send(socket: { write(bytes: Uint8Array): number }, more: string | Buffer = ''): void {
    this.#left = Buffer.concat([this.#left, Buffer.from(more)])
    const sent = this.#left.length === 0 ? 0 : socket.write(this.#left)
    this.#left = this.#left.subarray(Math.max(sent, 0))
  }
}

let server: Bun.Server<undefined>
let tcp: Bun.TCPSocketListener<Sender>
let gateway: Gateway
let door: ContainerDoor
/** What the servers have seen: nothing else may reach them. */
const seen: string[] = []
/** What names resolve to. */
const NAMES: Record<string, string[]> = {
  'allowed.example': ['127.0.0.1'],
  'echo.example': ['127.0.0.1'],
  'inner.example': ['10.0.0.1'],
  'half.example': ['93.184.216.34', '169.254.169.254'],
  'six.example': ['::1'],
}

beforeAll(async () => {
  server = Bun.serve({
    ...{ port: 0, hostname: '127.0.0.1' },
    async fetch(request) {
      const body = await request.text()
      const { pathname, search } = new URL(request.url)
      seen.push(`${request.method} ${request.headers.get('host')} ${pathname}${search} ${body}`)
      if (pathname === '/away')
        return new Response('', { status: 302, headers: { location: 'http://inner.example/' } })
      return new Response(JSON.stringify([...request.headers]))
    },
  })
  tcp = Bun.listen<Sender>({
    ...{ port: 0, hostname: '127.0.0.1' },
    socket: {
      open: socket => {
        socket.data = new Sender()
      },
      data: (socket, bytes) => socket.data.send(socket, bytes),
      drain: socket => socket.data.send(socket),
    },
  })
  gateway = await testGateway({
    config: {
      security: {
        allow_private_urls: [`allowed.example:${server.port}`, `echo.example:${tcp.port}`],
      },
    },
    resolve: async host => {
      const found = NAMES[host]
      if (!found) throw new Error('no such host')
      return found
    },
  })
  door = await openContainerNetwork(() => gateway).open([...['*.example', 'deep.allowed.example']])
})
afterAll(async () => {
  await door.close()
  await gateway.close()
  server.stop(true)
  tcp.stop(true)
})
beforeEach(() => {
  seen.length = 0
})

/** Sends bytes to a proxy and returns what it says until it closes the connection. */
function say(text: string, at = door): Promise<string> {
  const said = Promise.withResolvers<string>()
  let all = ''
  void Bun.connect({
    unix: at.socket,
    socket: {
      open: socket => void socket.write(text),
      data: (_, bytes) => {
        all += bytes.toString('latin1')
      },
      end: socket => void socket.end(),
      close: () => said.resolve(all),
      error: () => said.resolve(all),
    },
  })
  return said.promise
}

const get = (url: string, more = '') => say(`GET ${url} HTTP/1.1\r\n${more}\r\n`)
const here = () => `allowed.example:${server.port}`

describe('a request', () => {
  test('goes to an allowed host, without the headers of the proxy', async () => {
    const said = await get(
      `http://${here()}/a?b=1`,
      `Host: ${here()}\r\nProxy-Authorization: x\r\nX-A: 1\r\n`,
    )
    expect(said).toStartWith('HTTP/1.1 200')
    expect(said).toContain('["x-a","1"]')
    expect(said).not.toContain('proxy-authorization')
    expect(seen).toEqual([`GET ${here()} /a?b=1 `])
  })

  test('takes its body along, and nothing behind it', async () => {
    const smuggled = `GET http://${here()}/secret HTTP/1.1\r\nhost: inner.example\r\n\r\n`
    const said = await say(
      `POST http://${here()}/p HTTP/1.1\r\ncontent-length: 5\r\n\r\nHello${smuggled}`,
    )
    expect(said).toStartWith('HTTP/1.1 200')
    expect(seen).toEqual([`POST ${here()} /p Hello`])
  })

  test('that is redirected is not followed here: the next one is checked as well', async () => {
    const said = await get(`http://${here()}/away`)
    expect(said).toStartWith('HTTP/1.1 302')
    expect(await get('http://inner.example/')).toStartWith('HTTP/1.1 403')
    expect(seen).toHaveLength(1)
  })

  test.each([
    ['another host', 'http://evil.test/', '', '403'],
    ['a host that ends alike', 'http://notexample/', '', '403'],
    ['the domain above', 'http://example/', '', '403'],
    ['a private address', 'http://127.0.0.1/', '', '403'],
    ['one in another form', 'http://2130706433/', '', '403'],
    ['one in IPv6', 'http://[::1]/', '', '403'],
    ['metadata of a cloud', 'http://169.254.169.254/', '', '403'],
    ['a name of a private address', 'http://inner.example/', '', '403'],
    ['a name with a private one among others', 'http://half.example/', '', '403'],
    ['a name of a private one in IPv6', 'http://six.example/', '', '403'],
    ['a name that does not exist', 'http://nowhere.example/', '', '403'],
    ['another port', 'http://allowed.example:22/', '', '403'],
    ['TLS without a tunnel', 'https://allowed.example/', '', '400'],
    ['files', 'file:///etc/passwd', '', '400'],
    ['no host', '/etc/passwd', '', '400'],
    ['a user', 'http://a:b@allowed.example/', '', '400'],
  ])('for %s is refused', async (_, url, more, status) => {
    expect(await get(url, more)).toStartWith(`HTTP/1.1 ${status}`)
    expect(seen).toEqual([])
  })

  test.each([
    ['another Host', 'Host: inner.example\r\n', '400'],
    ['two of them', 'Host: HERE\r\nHost: evil.test\r\n', '400'],
    ['chunks', 'Transfer-Encoding: chunked\r\n', '411'],
    ['two lengths', 'Content-Length: 1\r\nContent-Length: 2\r\n', '400'],
    ['a length below zero', 'Content-Length: -1\r\n', '400'],
    ['a length that is none', 'Content-Length: 0x10\r\n', '400'],
    ['a folded line', 'X: 1\r\n Host: evil.test\r\n', '400'],
    ['a bare line end', 'X: 1\nHost: evil.test\r\n', '400'],
    ['a header without a name', ': 1\r\n', '400'],
    ['a space before the colon', 'Host : evil.test\r\n', '400'],
  ])('with %s is refused', async (_, more, status) => {
    const said = await get(`http://${here()}/`, more.replace('HERE', here()))
    expect(said).toStartWith(`HTTP/1.1 ${status}`)
    expect(seen).toEqual([])
  })

  test.each(['', 'x', 'GET / HTTP/2', 'get http://allowed.example/ HTTP/1.1', 'GET  HTTP/1.1'])(
    'that begins with %j is none',
    async line => {
      expect(await say(`${line}\r\n\r\n`)).toStartWith('HTTP/1.1 400')
    },
  )

  test('with a head without end is refused', async () => {
    expect(await say(`GET http://${here()}/ HTTP/1.1\r\nx: ${'a'.repeat(20_000)}`)).toStartWith(
      'HTTP/1.1 400',
    )
  })
})

describe('a tunnel', () => {
  const connect = (target: string) => say(`CONNECT ${target} HTTP/1.1\r\n\r\n`)

  test('hands bytes on, both ways', async () => {
    const head = 'HTTP/1.1 200 Connection established\r\n\r\n'
    const sent = `${'0123456789'.repeat(30_000)}END`
    const said = Promise.withResolvers<string>()
    const sender = new Sender()
    let all = ''
    void Bun.connect({
      unix: door.socket,
      socket: {
        open: socket => sender.send(socket, `CONNECT echo.example:${tcp.port} HTTP/1.1\r\n\r\n`),
        data: (socket, bytes) => {
          if (all === '') sender.send(socket, sent)
          all += bytes.toString('latin1')
          if (all.endsWith('END')) said.resolve(all)
        },
        drain: socket => sender.send(socket),
      },
    })
    expect((await said.promise) === head + sent).toBe(true)
  })

  test.each([
    ['evil.test:443', '403'],
    ['127.0.0.1:443', '403'],
    ['[::1]:443', '403'],
    ['inner.example:443', '403'],
    ['allowed.example:22', '403'],
    ['allowed.example:80', '403'],
    ['allowed.example', '400'],
    ['allowed.example:99999', '400'],
    ['allowed.example:443/x', '400'],
    ['a@allowed.example:443', '400'],
    ['http://allowed.example:443', '400'],
  ])('to %s is refused', async (target, status) => {
    expect(await connect(target)).toStartWith(`HTTP/1.1 ${status}`)
    expect(seen).toEqual([])
  })
})

test('the config bounds what callers may allow', async () => {
  const own = await testGateway({
    config: { sandbox: { allowed_hosts: ['other.example'] } },
    resolve: async () => ['93.184.216.34'],
  })
  const bound = await openContainerNetwork(() => own).open(['*'])
  expect(await say('GET http://allowed.example/ HTTP/1.1\r\n\r\n', bound)).toContain(
    'allowed.example is not among the allowed domains',
  )
  await bound.close()
  await own.close()
})

test('a door is its owner’s alone, has so many connections, and is gone when it is closed', async () => {
  const own = await openContainerNetwork(() => gateway).open(['*'])
  expect(statSync(own.socket).mode & 0o777).toBe(0o600)
  expect(statSync(dirname(own.socket)).mode & 0o777).toBe(0o700)
  const ends: Promise<void>[] = []
  for (let i = 0; i < 65; i++) {
    const opened = Promise.withResolvers<void>()
    const closed = Promise.withResolvers<void>()
    ends.push(closed.promise)
    void Bun.connect({
      unix: own.socket,
      socket: {
        open: () => opened.resolve(),
        data: () => undefined,
        close: () => closed.resolve(),
      },
    })
    await opened.promise
  }
  await Promise.race(ends)
  await own.close()
  await Promise.all(ends)
  expect(existsSync(own.socket)).toBe(false)
})
