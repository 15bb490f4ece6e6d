import { chmodSync, chownSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import {
  type AllowedHosts,
  type ContainerDoor,
  type ContainerNetwork,
  isReachable,
} from '../containers/network.ts'
import { checkUntrustedUrl } from '../untrusted-url.ts'
import type { UpstreamWorld } from '../world.ts'

/** What one container may have open at once. */
const MOST_CONNECTIONS = 64
const LARGEST_HEAD = 16 * 1024
/** Milliseconds without a byte, either way. */
const LONGEST_SILENCE = 60_000
const LARGEST_BODY = 1024 ** 3

/** Outside of their namespace, commands of a gateway that runs as root are the user `nobody`. */
const NOBODY = 65_534

/** Every user may make directories here, and no sandbox hides it from what starts commands. */
const PLACE = '/var/tmp'
const NAME = 'gateway-net-'

/**
 * Opens proxies for containers, each on a socket of its own. A proxy takes CONNECT, for TLS, and
 * plain HTTP with a whole address. The host must be allowed by its name, the port must be that of
 * the web, and the address must be public, as for every URL that callers name: what was checked is
 * what is called. Anything else is refused before a connection is opened.
 */
export function openContainerNetwork(world: () => UpstreamWorld): ContainerNetwork {
  let isSwept = false
  return {
    async open(hosts) {
      if (!isSwept) sweepSockets()
      isSwept = true
      return openDoor(world, hosts)
    },
  }
}

async function openDoor(world: () => UpstreamWorld, hosts: AllowedHosts): Promise<ContainerDoor> {
  const directory = mkdtempSync(join(PLACE, `${NAME}${process.pid}-`))
  const socket = join(directory, 's')
  const clients = new Set<Socket>()
  const server = createServer(client => {
    if (clients.size >= MOST_CONNECTIONS) return void client.destroy()
    clients.add(client)
    client.on('close', () => clients.delete(client))
    serve(world, hosts, client)
  })
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject)
    server.listen(socket, resolve)
  })
  chmodSync(socket, 0o600)
  if (process.getuid?.() === 0)
    for (const path of [socket, directory]) chownSync(path, NOBODY, NOBODY)
  return {
    socket,
    async close() {
      server.close()
      for (const client of clients) client.destroy()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** Removes the sockets of processes that were killed. */
function sweepSockets(): void {
  for (const name of readdirSync(PLACE)) {
    const owner = name.startsWith(NAME) ? Number(name.slice(NAME.length).split('-')[0]) : 0
    if (owner > 0 && !isRunning(owner)) tryToRemove(join(PLACE, name))
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (thrown) {
    return !(thrown instanceof Error && 'code' in thrown && thrown.code === 'ESRCH')
  }
}

// Another user’s stays.
function tryToRemove(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true })
  } catch {}
}

/** What a client wants, as far as its first lines say. */
interface Wish {
  method: string
  /** With its host in small letters. */
  url: URL
  /** What goes to the server first. */
  head: string
  /** How many bytes of a body follow; undefined in a tunnel. */
  length: number | undefined
}

/** Why a request goes nowhere. */
class Refusal extends Error {
  readonly status: string

  constructor(status: string, message: string) {
    super(message)
    this.status = status
  }
}

function serve(world: () => UpstreamWorld, hosts: AllowedHosts, client: Socket): void {
  let head = Buffer.alloc(0)
  const onData = (bytes: Buffer) => {
    head = Buffer.concat([head, bytes])
    const end = head.indexOf('\r\n\r\n')
    if (end === -1 && head.length <= LARGEST_HEAD) return
    client.pause()
    client.off('data', onData)
    const rest = head.subarray(end + 4)
    const text = head.toString('latin1', 0, Math.max(end, 0))
    void answer(world, hosts, client, text, rest).catch(thrown => refuse(client, thrown))
  }
  client.setTimeout(LONGEST_SILENCE, () => client.destroy())
  client.on('error', () => client.destroy())
  client.on('data', onData)
}

function refuse(client: Socket, thrown: unknown): void {
  const { status, message } =
    thrown instanceof Refusal ? thrown : new Refusal('502 Bad Gateway', 'It cannot be reached')
  client.end(
    `HTTP/1.1 ${status}\r\ncontent-type: text/plain\r\nconnection: close\r\n` +
      `content-length: ${message.length + 1}\r\n\r\n${message}\n`,
  )
}

async function answer(
  world: () => UpstreamWorld,
  hosts: AllowedHosts,
  client: Socket,
  text: string,
  rest: Buffer,
): Promise<void> {
  const wish = readWish(text)
  const host = wish.url.hostname
  if (!isReachable(world().config, hosts, host))
    throw new Refusal('403 Forbidden', `${host} is not among the allowed domains`)
  const { address } = await checkUntrustedUrl(world(), wish.url.href).catch(() => {
    throw new Refusal('403 Forbidden', `${host} cannot be asked: it is not public, or not there`)
  })
  if (client.destroyed) return
  const server = await open(address, wish.url)
  if (client.destroyed) return void server.destroy()
  if (wish.length === undefined) client.write('HTTP/1.1 200 Connection established\r\n\r\n')
  joinEnds(client, server, wish, rest)
}

const WEB_PORTS: Record<string, string> = { 'http:': '80', 'https:': '443' }

const TARGET = /^([A-Z]{1,16}) (\S{1,8192}) HTTP\/1\.[01]$/
const AUTHORITY = /^([a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\]):(\d{1,5})$/

/** Reads the first lines of a request. Throws what is wrong with them. */
function readWish(text: string): Wish {
  const [line = '', ...fields] = text.split('\r\n')
  const [, method = '', target = ''] = TARGET.exec(line) ?? []
  if (method === '') throw new Refusal('400 Bad Request', 'Not a request for a proxy')
  return method === 'CONNECT' ? readTunnel(target) : readPlain(method, target, fields)
}

function readTunnel(target: string): Wish {
  const [, host, port] = AUTHORITY.exec(target.toLowerCase()) ?? []
  const url = host === undefined ? null : URL.parse(`https://${host}:${port}/`)
  if (!url) throw new Refusal('400 Bad Request', 'Expected CONNECT host:port')
  // In a tunnel to the port of plain HTTP, it would not be seen which host is asked.
  if (url.port === WEB_PORTS['http:'])
    throw new Refusal('403 Forbidden', 'Port 80 is for plain requests, without CONNECT')
  return { method: 'CONNECT', url, head: '', length: undefined }
}

/** Headers for the proxy itself, and those that say how long a request is. */
const DROPPED = /^(connection|proxy-[a-z-]*|keep-alive|te|trailer|upgrade|host)$/

function readPlain(method: string, target: string, fields: string[]): Wish {
  const url = /^http:\/\//i.test(target) ? URL.parse(target) : null
  if (url?.username !== '' || url.password !== '')
    throw new Refusal('400 Bad Request', 'Expected an address with http:// and a host')
  const headers = fields.map(readField)
  const named = headers.filter(([name]) => name === 'host').map(([, value]) => value.toLowerCase())
  if (named.some(value => value !== url.host))
    throw new Refusal('400 Bad Request', 'The host header is not that of the address')
  const kept = headers.filter(([name]) => !DROPPED.test(name))
  const head = [
    `${method} ${url.pathname}${url.search} HTTP/1.1`,
    ...[['host', url.host], ...kept, ['connection', 'close']].map(
      ([name, value]) => `${name}: ${value}`,
    ),
  ].join('\r\n')
  return { method, url, head: `${head}\r\n\r\n`, length: readLength(headers) }
}

// A line that begins with a space would belong to the one before it.
function readField(line: string): [name: string, value: string] {
  const [, name = '', value = ''] =
    /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)$/.exec(line) ?? []
  if (name === '') throw new Refusal('400 Bad Request', 'A header that is none')
  return [name.toLowerCase(), value.trim()]
}

/** Returns the length of a body. Only so much is sent on: what follows would be another request. */
function readLength(headers: [string, string][]): number {
  if (headers.some(([name]) => name === 'transfer-encoding'))
    throw new Refusal('411 Length Required', 'A body needs its length')
  const lengths = headers.filter(([name]) => name === 'content-length').map(([, value]) => value)
  const [length = '0', ...others] = [...new Set(lengths)]
  if (others.length > 0 || !/^\d{1,10}$/.test(length) || Number(length) > LARGEST_BODY)
    throw new Refusal('400 Bad Request', 'A length that is none')
  return Number(length)
}

const CONNECT_MILLISECONDS = 10_000

function open(address: string, { port, protocol }: URL): Promise<Socket> {
  const server = connect({ host: address, port: Number(port || WEB_PORTS[protocol]) })
  const opened = Promise.withResolvers<Socket>()
  const timer = setTimeout(() => server.destroy(new Error('late')), CONNECT_MILLISECONDS)
  server.once('connect', () => opened.resolve(server))
  server.once('error', opened.reject)
  server.once('close', () => opened.reject(new Error('closed')))
  return opened.promise.finally(() => clearTimeout(timer))
}

/** Joins both ends until one of them is closed. */
function joinEnds(client: Socket, server: Socket, { head, length }: Wish, rest: Buffer): void {
  const end = () => {
    client.destroy()
    server.destroy()
  }
  server.setTimeout(LONGEST_SILENCE, end)
  for (const socket of [client, server]) socket.on('error', end)
  server.on('close', () => client.end())
  client.on('close', () => server.destroy())
  server.pipe(client)
  if (head !== '') server.write(head, 'latin1')
  let left = length ?? Number.POSITIVE_INFINITY
  const send = (bytes: Buffer) => {
    const wanted = bytes.subarray(0, Math.min(left, bytes.length))
    left -= wanted.length
    if (wanted.length > 0 && !server.write(wanted)) client.pause()
  }
  server.on('drain', () => client.resume())
  client.on('data', send)
  client.on('end', () => server.end())
  send(rest)
  client.resume()
}
