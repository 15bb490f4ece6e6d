import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openRemote } from '../../../src/cli/remote.ts'
import type { Row } from '../../../src/cli/tui/actions/asking.ts'
import { describeFailure } from '../../../src/cli/tui/failure.ts'
import { Live } from '../../../src/cli/tui/live.ts'
import { openLocalSource } from '../../../src/cli/tui/source/local.ts'
import { openRemoteSource } from '../../../src/cli/tui/source/remote.ts'
import { type KeyRecord, NOUNS, type Noun, type Source } from '../../../src/cli/tui/source.ts'
import { startTellingServer, type TellingServer } from '../../support/activity.ts'
import { runCommand } from '../../support/commands.ts'
import { openDatabase } from '../../support/database.ts'

let server: TellingServer
let sources: Record<'local' | 'remote', Source>
let id: string

beforeAll(async () => {
  server = await startTellingServer()
  sources = {
    local: openLocalSource({ data: server.data }),
    remote: openRemoteSource(await openRemote(`${server.url}/`, server.management_key)),
  }
  id = (await server.call()).headers.get('x-generation-id') ?? ''
})
afterAll(() => server[Symbol.asyncDispose]())

const runJson = async (...args: string[]) =>
  JSON.parse((await runCommand([...args, '--data', server.data, '--json'])).stdout)

describe('a data directory', () => {
  test('shows of a call what gateway generations get --json shows', async () => {
    expect(JSON.parse(JSON.stringify(await sources.local.getCall(id)))).toEqual(
      (await runJson('generations', 'get', id)).data,
    )
    expect(await sources.local.listCalls(10)).toMatchObject([
      { id, state: 'done', status: 200, model: 'sandbox/echo', key: 'inference' },
    ])
  })

  test('lists every noun', async () => {
    for (const noun of NOUNS)
      expect([noun, Array.isArray(await sources.local.list(noun))]).toEqual([noun, true])
    expect(await sources.local.list('workspaces')).toEqual(
      (await runJson('workspaces', 'list')).data,
    )
  })

  test('adds credits, as the command does', async () => {
    const add = (source: Source, input: object) =>
      source.change({ noun: 'credits', verb: 'create', id: '', input })
    await add(sources.local, { amount: 7, note: 'May' })
    expect(await sources.local.list('credits')).toMatchObject([{ amount: 7, note: 'May' }])
    expect(add(sources.local, { amount: 0 })).rejects.toThrow('amount')
    expect(add(sources.remote, { amount: 1 })).rejects.toThrow('host alone')
  })

  test('lets an endpoint of its server rest, and wakes it', async () => {
    const endpoint = 'sandbox/echo sandbox/echo'
    await sources.local.rest(endpoint, 60)
    expect(server.gateway.traffic.health.listCooldowns()).toHaveLength(1)
    await sources.local.wake(endpoint)
    expect(server.gateway.traffic.health.listCooldowns()).toEqual([])
    expect(sources.local.wake('acme/none')).rejects.toThrow('Endpoint not found')
    // As the records of calls name it.
    await sources.local.rest('sandbox/echo', 60)
    expect(server.gateway.traffic.health.listCooldowns()).toMatchObject([{ endpoint }])
    await sources.local.wake(endpoint)
  })
})

describe('a gateway elsewhere', () => {
  test('shows a call as its API does, and lists what the API lists', async () => {
    expect(await sources.remote.getCall(id)).toMatchObject({ id, model: 'sandbox/echo' })
    for (const noun of NOUNS)
      if (noun === 'credits') expect(sources.remote.list(noun)).rejects.toThrow('host alone')
      else if (noun !== 'presets')
        expect([noun, Array.isArray(await sources.remote.list(noun))]).toEqual([noun, true])
    expect(sources.remote.rest('x', 1)).rejects.toThrow('host alone')
  })

  test('refuses as its API does, in a sentence', async () => {
    const wrong = openRemoteSource(await openRemote(server.url, 'nonsense'))
    expect(wrong.list('keys')).rejects.toThrow(/^Missing|^Invalid|^No auth|key/)
    expect(openRemote('ftp://x', 'k')).rejects.toThrow('--url: expected an address')
    const nobody = openRemoteSource(await openRemote('http://127.0.0.1:1', 'k'))
    expect(nobody.openFeed()).rejects.toThrow('No gateway answers at 127.0.0.1:1')
  })
})

describe.each(['local', 'remote'] as const)('changes of a gateway: %s', name => {
  const change = (noun: Noun, verb: string, id: string, input: object) =>
    sources[name].change({ noun, verb, id, input })
  const find = async (noun: Noun, field: string, value: string) =>
    ((await sources[name].list(noun)) as Row[]).find(row => row[field] === value)

  test('keys are created, changed and deleted', async () => {
    expect(await change('keys', 'create', '', { name, limit: 2 })).toStartWith('gw-')
    const hash = String((await find('keys', 'name', name))?.hash)
    expect(await change('keys', 'update', hash, { disabled: true })).toBe(null)
    await change('keys', 'update', hash, { limit: null, name: `${name}-2` })
    expect(await find('keys', 'name', `${name}-2`)).toMatchObject({ disabled: true, limit: null })
    expect(change('keys', 'update', hash, { limit: -1 })).rejects.toThrow('limit')
    expect(change('keys', 'create', '', { name: '' })).rejects.toThrow('name')
    await change('keys', 'delete', hash, {})
    expect(await find('keys', 'name', `${name}-2`)).toBe(undefined)
  })

  test('workspaces, their budgets and their members', async () => {
    const slug = `team-${name}`
    await change('workspaces', 'create', '', { name: slug, slug })
    const id = String((await find('workspaces', 'slug', slug))?.id)
    await change('workspaces', 'update', id, { name: 'Team' })
    expect(await find('workspaces', 'id', id)).toMatchObject({ name: 'Team' })
    await change('budgets', 'set', `${id} monthly`, { limit_usd: 20 })
    expect(await find('budgets', 'workspace_id', id)).toMatchObject({
      ...{ reset_interval: 'monthly', limit_usd: 20 },
    })
    await change('budgets', 'delete', `${id} monthly`, {})
    expect(await find('budgets', 'workspace_id', id)).toBe(undefined)
    const email = `${name}@example.com`
    await sources.local.change({ noun: 'members', verb: 'create', id: '', input: { email } })
    const user = String((await find('members', 'email', email))?.id)
    await change('members', 'add', id, { user_ids: [user] })
    await change('members', 'remove', id, { user_ids: [user] })
    await change('workspaces', 'delete', id, {})
    expect(await find('workspaces', 'id', id)).toBe(undefined)
  })

  test('guardrails, and whom they are assigned to', async () => {
    await change('guardrails', 'create', '', { name: `rules-${name}` })
    const id = String((await find('guardrails', 'name', `rules-${name}`))?.id)
    await change('guardrails', 'update', id, { limit_usd: 5, reset_interval: 'daily' })
    expect(await find('guardrails', 'id', id)).toMatchObject({ limit_usd: 5 })
    await change('guardrails', 'update', id, { requests_per_minute: 60, concurrent_requests: 4 })
    const key = (await find('keys', 'name', 'inference')) as never as KeyRecord
    const user = String(((await sources.local.list('members')) as Row[])[0]?.id)
    const limits = { requests_per_minute: 60, tokens_per_minute: null, concurrent_requests: 4 }
    for (const [verb, scopes] of [
      ['assign', ['member', 'key']],
      ['unassign', []],
    ] as const) {
      await change('guardrails', `${verb}Keys`, id, { key_hashes: [key.hash] })
      await change('guardrails', `${verb}Members`, id, { member_user_ids: [user] })
      expect(await sources[name].readRates(key)).toEqual(
        scopes.map(scope => ({ scope, name: `rules-${name}`, ...limits })),
      )
    }
    await change('guardrails', 'delete', id, {})
    expect(await find('guardrails', 'id', id)).toBe(undefined)
  })

  test('provider keys and destinations', async () => {
    await change('byok', 'create', '', { provider: 'openai', name, key: 'sk-0123456789' })
    const key = String((await find('byok', 'name', name))?.id)
    await change('byok', 'update', key, { disabled: true })
    expect(await find('byok', 'id', key)).toMatchObject({ disabled: true })
    await change('byok', 'delete', key, {})
    const input = { name, type: 'webhook', config: { url: 'https://example.com/hook' } }
    await change('destinations', 'create', '', input)
    const made = await find('destinations', 'name', name)
    expect(made?.warning).toStartWith('Nothing is sent: is_observability_broadcast_enabled is off')
    const id = String(made?.id)
    await change('destinations', 'update', id, { enabled: false })
    expect(await find('destinations', 'id', id)).toMatchObject({ enabled: false })
    await change('destinations', 'delete', id, {})
    expect(await find('destinations', 'id', id)).toBe(undefined)
  })

  test('what there is no change for is said', async () => {
    expect(change('audit', 'delete', 'x', {})).rejects.toThrow('audit know no delete')
    expect(change('keys', 'delete', 'x', {})).rejects.toThrow('not found')
  })
})

test('presets are created, disabled and archived at the host', async () => {
  const change = (verb: string, input: object) =>
    sources.local.change({ noun: 'presets', verb, id: 'terse', input })
  const find = async () => ((await sources.local.list('presets')) as Row[])[0]
  await change('create', { model: 'sandbox/echo' })
  for (const status of ['disabled', 'archived']) {
    await change('update', { status })
    expect(await find()).toMatchObject({ slug: 'terse', status })
  }
  expect(change('update', { status: 'odd' })).rejects.toThrow('status')
})

test('a gateway elsewhere says what only its host can change', async () => {
  for (const [noun, verb] of [
    ['members', 'create'],
    ['members', 'update'],
    ['members', 'deactivate'],
    ['presets', 'create'],
    ['presets', 'update'],
    ['credits', 'create'],
  ] as const)
    expect(sources.remote.change({ noun, verb, id: 'x', input: {} })).rejects.toThrow('host alone')
})

describe.each(['local', 'remote'] as const)(
  'a past call is explained as it would go now: %s',
  name => {
    test('with a filler where its texts are not kept', async () => {
      const { explanation, unknown } = await sources[name].explainCall(id)
      expect(explanation.endpoints).toMatchObject([{ provider: 'sandbox', model: 'sandbox/echo' }])
      expect(explanation.key?.name).toBe('inference')
      expect(unknown[0]).toMatch(
        /^Its texts are not kept: a filler of \d+ tokens stands for them\.$/,
      )
    })

    test('and a call that is not there is said', async () => {
      expect(sources[name].explainCall('gen-none')).rejects.toThrow('Generation not found')
    })
  },
)

test('the feed of a gateway elsewhere begins with the calls before it', async () => {
  const { batches, close } = await sources.remote.openFeed()
  const live = new Live()
  while (!live.calls.has(id)) live.applyAll((await batches.next()).value ?? [])
  expect(live.calls.get(id)).toMatchObject({
    ...{ state: 'done', status: 200, model: 'sandbox/echo', key: 'inference', tries: 1 },
  })
  close()
})

test.each(['local', 'remote'] as const)(
  'money is summed in the windows of limits: %s',
  async name => {
    await runCommand(['budgets', 'set', 'daily', '--limit', '4', '--data', server.data])
    await server.gateway.catchUp()
    const { groups, keys, budgets } = await sources[name].readMoney()
    const sums = { today: 0, week: 0, month: 0 }
    expect(groups.model).toEqual([{ name: 'sandbox/echo', ...sums }])
    expect(groups.workspace).toMatchObject([sums])
    expect(Object.keys(groups)).toEqual(['model', 'workspace', 'member', 'app'])
    expect(keys.length).toBeGreaterThan(1)
    expect(budgets).toMatchObject([{ ...sums, limit: 4, spent: 0 }])
  },
)

describe('a data directory with a fault is described in a sentence', () => {
  const describeFault = async (spoil: (data: string) => void): Promise<string> => {
    const data = mkdtempSync(join(tmpdir(), 'gateway-fault-'))
    await runCommand(['init', '--data', data])
    spoil(data)
    const failure = await openLocalSource({ data }).listCalls(1).catch(describeFailure)
    rmSync(data, { recursive: true })
    return String(failure)
  }
  const spoilDatabase = (sql: string) => (data: string) => {
    const db = openDatabase(data)
    db.run(sql)
    db.close()
  }

  test('that is missing, newer, corrupt, or no database', async () => {
    expect(await describeFault(data => rmSync(join(data, 'gateway.db')))).toStartWith(
      'There is no data of a gateway in',
    )
    expect(await describeFault(spoilDatabase('pragma user_version = 999'))).toContain(
      'written by a newer gateway',
    )
    expect(
      await describeFault(data => writeFileSync(join(data, 'gateway.db'), 'x'.repeat(9_000))),
    ).toContain('is no database of the gateway (SQLITE_NOTADB)')
    expect(
      await describeFault(data => {
        const file = join(data, 'gateway.db')
        writeFileSync(file, readFileSync(file).fill(7, 4_096, 20_000))
      }),
    ).toContain('the database is damaged: restore a backup (SQLITE_CORRUPT)')
  })
})
