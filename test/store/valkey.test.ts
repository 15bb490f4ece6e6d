import { afterEach, describe, expect, test } from 'bun:test'
import { openPools, POOL_SCRIPTS } from '../../src/store/valkey/pools.ts'
import { describeValkey, Valkey, type ValkeyState } from '../../src/store/valkey.ts'
import { CERTIFICATE } from '../support/certificate.ts'
import { hasValkey, startValkey, type ValkeyServer } from '../support/valkey.ts'

if (await hasValkey()) {
  const opened: Valkey[] = []
  const servers: ValkeyServer[] = []
  afterEach(async () => {
    for (const valkey of opened.splice(0)) await valkey.close()
    for (const server of servers.splice(0)) await server[Symbol.asyncDispose]()
  })

  async function start(settings?: Record<string, string>): Promise<ValkeyServer> {
    const server = await startValkey(settings)
    servers.push(server)
    return server
  }

  async function open(url: string, onState?: (state: ValkeyState) => void): Promise<Valkey> {
    const valkey = await Valkey.open({
      ...{ url, prefix: 'tests:', scripts: POOL_SCRIPTS },
      ...(onState ? { onState } : {}),
    })
    opened.push(valkey)
    return valkey
  }

  /** Opens one, and returns what resolves with its next state. */
  async function openWatched(url: string) {
    let next = Promise.withResolvers<ValkeyState>()
    const valkey = await open(url, state => next.resolve(state))
    const awaitState = async () => {
      const state = await next.promise
      next = Promise.withResolvers()
      return state
    }
    await awaitState()
    return { valkey, awaitState }
  }

  const ping = (valkey: Valkey) => valkey.ask(client => client.send('PING', []))
  const readWords = async (url: string) => (await open(url)).state.words

  describe('a server that cannot be used is not asked, and its state says why', () => {
    test('where nobody listens, or another protocol is spoken', async () => {
      await using web = Bun.serve({ port: 0, fetch: () => new Response('Hello') })
      const mute = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
      expect(await readWords('redis://127.0.0.1:1')).toBe('cannot be reached (ECONNREFUSED)')
      expect(await readWords(`redis://127.0.0.1:${web.port}`)).toBe(
        'is something else than Valkey or Redis',
      )
      expect(await readWords(`redis://127.0.0.1:${mute.port}`)).toBe('does not answer')
      mute.stop(true)
    })

    test('where the password is missing or wrong, which is never shown', async () => {
      const { url } = await start({ requirepass: 'right' })
      expect(await readWords(url)).toBe('answers')
      expect(await readWords(url.replace(':right@', ''))).toStartWith('refuses: NOAUTH')
      const wrong = await readWords(url.replace('right', 'wrong-one'))
      expect(wrong).toStartWith('refuses: WRONGPASS')
      expect(wrong + describeValkey(url)).not.toMatch(/wrong-one|right/)
    })

    test('where it takes no changes, or has no room for any', async () => {
      const full = await start({ maxmemory: '1mb' })
      expect(await readWords(full.url)).toStartWith('refuses: OOM')
      const { port } = new URL(full.url)
      const replica = await start({ replicaof: `127.0.0.1 ${port}` })
      expect(await readWords(replica.url)).toStartWith('refuses: READONLY')
    })

    test('where it knows no scripts', async () => {
      const { url } = await start({ 'rename-command': 'SCRIPT nothing' })
      expect(await readWords(url)).toStartWith('refuses: ERR unknown command')
    })

    test('where its certificate is not trusted', async () => {
      const server = Bun.listen({
        ...{ hostname: '127.0.0.1', port: 0, tls: CERTIFICATE, socket: { data() {} } },
      })
      expect(await readWords(`rediss://127.0.0.1:${server.port}`)).toMatch(
        /^has a certificate that is not trusted .*NODE_EXTRA_CA_CERTS/,
      )
      server.stop(true)
    })
  })

  test('a server that stands still is waited for once, and asked again when it goes on', async () => {
    const server = await start()
    const { valkey, awaitState } = await openWatched(server.url)
    expect(await ping(valkey)).toBe('PONG')
    server.freeze(true)
    expect(await Promise.all([ping(valkey), ping(valkey)])).toEqual([undefined, undefined])
    expect(await awaitState()).toEqual({ isUp: false, words: 'does not answer' })
    const { asked } = valkey
    expect(await ping(valkey)).toBeUndefined()
    expect(valkey.asked).toBe(asked)
    server.freeze(false)
    expect((await awaitState()).isUp).toBe(true)
    expect(await ping(valkey)).toBe('PONG')
  })

  test('what another program writes into a pool counts as nothing', async () => {
    const server = await start()
    const { valkey } = await openWatched(server.url)
    const pools = openPools(valkey, name => name)
    const need = { want: 1, demand: 1, maximum: 100 }
    const nothing = { granted: 0, left: 0, taken: 0, born: 0, isDry: false, isFilling: false }
    const full = { name: 'full', number: 1, length: 60_000 }
    expect(await pools.add(full, 40, { taken: 50, born: 7 })).toBe('added')
    const nameKey = (name: string) => `${valkey.prefix}pool:${valkey.run}:${name}:1`
    const garble = (left: string) => (key: string) =>
      server.run('HSET', key, 'left', left, 'taken', '0', 'born', '9')
    const attacks: Record<string, (key: string) => Promise<unknown>> = {
      ...{ list: key => server.run('LPUSH', key, 'x'), huge: garble('9e18'), nan: garble('nan') },
      ...{ negative: garble('-5'), word: garble('x'), plain: garble('40') },
      copied: key => server.run('COPY', nameKey('full'), key),
      changed: async key => {
        await pools.add({ ...full, name: 'changed' }, 10, { taken: 50, born: 7 })
        await server.run('HINCRBY', key, 'left', '40')
      },
      dry: key =>
        server.run('HSET', `${key}:dry`, 'want', '0', 'maximum', '999', 'taken', '9', 'born', '9'),
      'dry list': key => server.run('LPUSH', `${key}:dry`, 'x'),
      filling: key => server.run('SET', `${key}:filling`, '1'),
      'filling list': async key => {
        await server.run('DEL', `${key}:filling`)
        await server.run('LPUSH', `${key}:filling`, 'x')
      },
    }
    for (const [name, attack] of Object.entries(attacks)) {
      await attack(nameKey(name))
      const counter = { ...full, name }
      expect([name, await pools.take(counter, need, 2)]).toEqual([name, nothing])
      await attack(nameKey(name))
      expect(await pools.add(counter, 40, { taken: 50, born: 7 })).toBe('added')
      expect([name, await pools.take(counter, need, 2)]).toEqual([
        name,
        { ...nothing, granted: 5, left: 35, taken: 50, born: 7 },
      ])
    }
    expect(valkey.state.isUp).toBe(true)
  })

  test('what a pool has is of one run of the server, and is missed after it', async () => {
    const server = await start({ appendonly: 'yes', appendfsync: 'always' })
    const { valkey, awaitState } = await openWatched(server.url)
    const pools = openPools(valkey, name => name)
    const counter = { name: 'a', number: 1, length: 60_000 }
    const need = { want: 1, demand: 1, maximum: 100 }
    expect(await pools.add(counter, 40, { taken: 50, born: 7 })).toBe('added')
    expect(await pools.take(counter, need, 2)).toEqual({
      ...{ granted: 5, left: 35, taken: 50, born: 7, isDry: false, isFilling: false },
    })
    await server.stop()
    expect((await awaitState()).isUp).toBe(false)
    expect(await pools.take(counter, need, 2)).toBeUndefined()
    expect(await pools.add(counter, 40, { taken: 90, born: 7 })).toBe('refused')
    await server.start()
    while (!(await awaitState()).isUp);
    expect(await server.run('DBSIZE')).toBeGreaterThan(0)
    expect(await pools.take(counter, need, 2)).toEqual({
      ...{ granted: 0, left: 0, taken: 0, born: 0, isDry: false, isFilling: false },
    })
  })
}
