import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import type { ContainerDoor } from '../../../src/network/containers/network.ts'
import { openContainerNetwork } from '../../../src/network/http/container-proxy.ts'
import { bubblewrap } from '../../../src/network/sandboxes/bubblewrap.ts'
import type { SandboxBox } from '../../../src/network/sandboxes/sandbox.ts'
import { LIMITS, runIn } from '../../suites/sandbox.ts'
import { testGateway } from '../../support/gateway.ts'
import { findProcesses, type Host, openHost } from '../../support/sandboxes/host.ts'

const obstacle = (await bubblewrap.findObstacle()) ?? bubblewrap.findNetworkObstacle()
if (obstacle !== null) test.skip(`bubblewrap has no network here: ${obstacle}`, () => undefined)

describe.skipIf(obstacle !== null)('out of bubblewrap with a network:', () => {
  let host: Host
  let server: Bun.Server<undefined>
  let gateway: Gateway
  let door: ContainerDoor
  let box: SandboxBox
  let asked = 0
  let address: string

  beforeAll(async () => {
    host = await openHost()
    server = Bun.serve({
      ...{ port: 0, hostname: '127.0.0.1' },
      async fetch(request) {
        asked += 1
        const { pathname } = new URL(request.url)
        if (pathname === '/away')
          return new Response('', {
            status: 302,
            headers: { location: `http://inner.example:${host.port}/` },
          })
        return new Response(`allowed ${(await request.text()).length}\n`)
      },
    })
    address = `allowed.example:${server.port}`
    gateway = await testGateway({
      config: { security: { allow_private_urls: [address] } },
      // Every name is this machine, as it is where a stranger rules the name.
      resolve: async () => ['127.0.0.1'],
    })
    door = await openContainerNetwork(() => gateway).open(['*.example'])
    box = await bubblewrap.open(LIMITS, door)
  })
  afterAll(async () => {
    await box.close()
    await door.close()
    await gateway.close()
    server.stop(true)
    host.close()
  })

  /** A program that asks a proxy, or a host, for a page. It needs no other than perl. */
  const ask = (target: string, at: string, more = '') =>
    `perl -MSocket -e '$SIG{ALRM} = sub { exit 3 }; alarm 5; socket(S, PF_INET, SOCK_STREAM, 0); connect(S, sockaddr_in(${at.split(':')[1]}, inet_aton("${at.split(':')[0]}"))) or die "no way\n"; syswrite S, "${target} HTTP/1.1\\r\\n${more}\\r\\n"; print while <S>'`
  const PROXY = '127.0.0.1:3128'

  test('an allowed host is reached, and sends what it gets', async () => {
    const { stdout } = await runIn(box, ask(`GET http://${address}/`, PROXY))
    expect(stdout).toContain('allowed 0')
    const body = 'Content-Length: 5\\r\\n\\r\\nHello'
    const posted = await runIn(box, ask(`POST http://${address}/`, PROXY, body))
    expect(posted.stdout).toContain('allowed 5')
  })

  test('programs find the way by themselves', async () => {
    const { stdout } = await runIn(box, 'echo $http_proxy $https_proxy $no_proxy')
    expect(stdout).toBe('http://127.0.0.1:3128 http://127.0.0.1:3128 localhost,127.0.0.1\n')
  })

  const attempts: [string, () => string][] = [
    ['another host', () => ask(`GET http://evil.test:${host.port}/`, PROXY)],
    ['an address', () => ask(`GET http://127.0.0.1:${host.port}/`, PROXY)],
    ['an address as one number', () => ask(`GET http://2130706433:${host.port}/`, PROXY)],
    ['a tunnel to an address', () => ask(`CONNECT 127.0.0.1:${host.port}`, PROXY)],
    ['a name of a private address', () => ask(`GET http://inner.example:${host.port}/`, PROXY)],
    ['a tunnel to such a name', () => ask(`CONNECT inner.example:${host.port}`, PROXY)],
    ['the same at the port of TLS', () => ask('CONNECT inner.example:443', PROXY)],
    ['the same at the port of plain HTTP', () => ask('GET http://inner.example/', PROXY)],
    [
      'another host in the header',
      () => ask(`GET http://${address}/`, PROXY, `Host: inner.example:${host.port}\\r\\n`),
    ],
    ['a host without the proxy', () => ask('GET /', `127.0.0.1:${host.port}`)],
    ['a public host without the proxy', () => ask('GET /', '93.184.216.34:80')],
    [
      'names from a name server',
      () => `perl -e '@a = gethostbyname("example.com"); print "ESCAPED" if @a'`,
    ],
    [
      'datagrams',
      () =>
        `perl -MSocket -e 'socket(S, PF_INET, SOCK_DGRAM, 0); send(S, "x", 0, sockaddr_in(${host.udpPort}, INADDR_LOOPBACK))'`,
    ],
    ['the sockets beside its own', () => 'ls /var/tmp /run/..?* 2>/dev/null | grep gateway-net'],
    [
      'another program in the place of the socket',
      () =>
        'rm -f /run/proxy.sock; mv /run/proxy.sock /tmp/x; echo x > /run/forwarder && echo ESCAPED',
    ],
    [
      'the forwarder after the command',
      () => `(exec -a ${host.marker} sleep ${host.marker}) & disown; exit 0`,
    ],
  ]
  test.each(attempts)('%s is not reached', async (_, command) => {
    const { reached } = host
    const before = asked
    const { stdout, stderr } = await runIn(box, command(), { timeoutMs: 10_000 })
    expect(stdout + stderr).not.toContain(host.secret)
    expect(stdout).not.toContain('ESCAPED')
    expect(stdout).not.toContain('gateway-net')
    expect(stdout).not.toContain('200 Connection established')
    expect([host.reached, asked]).toEqual([reached, before])
    expect(findProcesses(host.marker)).toEqual([])
  })

  test('a redirect to a private address ends at the proxy', async () => {
    const { reached } = host
    const { stdout } = await runIn(box, ask(`GET http://${address}/away`, PROXY))
    const [, next = ''] = /location: (\S+)/i.exec(stdout) ?? []
    expect(next).toBe(`http://inner.example:${host.port}/`)
    expect((await runIn(box, ask(`GET ${next}`, PROXY))).stdout).toContain('403 Forbidden')
    expect(host.reached).toBe(reached)
  })

  test('connections without end keep nobody else from the network', async () => {
    const other = await openContainerNetwork(() => gateway).open(['*.example'])
    const neighbour = await bubblewrap.open(LIMITS, other)
    const flood =
      "perl -MSocket -e '$SIG{ALRM} = sub { print scalar @s; exit }; alarm 2; while (1) { socket(my $s, PF_INET, SOCK_STREAM, 0); connect($s, sockaddr_in(3128, INADDR_LOOPBACK)) and push @s, $s }'"
    let isFlooding = true
    const flooding = runIn(box, flood).finally(() => {
      isFlooding = false
    })
    do {
      const { stdout } = await runIn(neighbour, ask(`GET http://${address}/`, PROXY))
      expect(stdout).toContain('allowed 0')
    } while (isFlooding)
    const held = Number((await flooding).stdout)
    expect(held).toBeGreaterThan(64)
    expect(held).toBeLessThan(500)
    expect((await runIn(box, ask(`GET http://${address}/`, PROXY))).stdout).toContain('allowed 0')
    await neighbour.close()
    await other.close()
  })

  test('what the gateway does in it itself has no network', async () => {
    await box.write(
      (async function* () {
        yield { path: 'a', mode: 0o644, size: 0, pieces: (async function* () {})() }
      })(),
    )
    expect((await box.list()).files.map(({ path }) => path)).toContain('a')
  })
})
