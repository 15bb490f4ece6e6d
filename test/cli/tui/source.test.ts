import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openRemote } from '../../../src/cli/remote.ts'
import { describeFailure } from '../../../src/cli/tui/failure.ts'
import { openLocalSource } from '../../../src/cli/tui/source/local.ts'
import { openRemoteSource } from '../../../src/cli/tui/source/remote.ts'
import { NOUNS, type Source } from '../../../src/cli/tui/source.ts'
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
      expect([noun, Array.isArray(await sources.local.listNoun(noun))]).toEqual([noun, true])
    expect(await sources.local.listNoun('workspaces')).toEqual(
      (await runJson('workspaces', 'list')).data,
    )
  })

  test('adds credits, as the command does', async () => {
    await sources.local.addCredit({ amount: 7, note: 'May' })
    expect(await sources.local.listNoun('credits')).toMatchObject([{ amount: 7, note: 'May' }])
    expect(sources.local.addCredit({ amount: 0 })).rejects.toThrow('amount')
    expect(sources.remote.addCredit({ amount: 1 })).rejects.toThrow('host alone')
  })

  test('lets an endpoint of its server rest, and wakes it', async () => {
    const endpoint = 'sandbox/echo sandbox/echo'
    await sources.local.rest(endpoint, 60)
    expect(server.gateway.traffic.health.listCooldowns()).toHaveLength(1)
    await sources.local.wake(endpoint)
    expect(server.gateway.traffic.health.listCooldowns()).toEqual([])
    expect(sources.local.wake('acme/none')).rejects.toThrow('Endpoint not found')
  })
})

describe('a gateway elsewhere', () => {
  test('shows a call as its API does, and lists what the API lists', async () => {
    expect(await sources.remote.getCall(id)).toMatchObject({ id, model: 'sandbox/echo' })
    for (const noun of NOUNS)
      if (noun === 'credits') expect(sources.remote.listNoun(noun)).rejects.toThrow('host alone')
      else if (noun !== 'presets')
        expect([noun, Array.isArray(await sources.remote.listNoun(noun))]).toEqual([noun, true])
    expect(sources.remote.rest('x', 1)).rejects.toThrow('host alone')
  })

  test('refuses as its API does, in a sentence', async () => {
    const wrong = openRemoteSource(await openRemote(server.url, 'nonsense'))
    expect(wrong.listKeys()).rejects.toThrow(/^Missing|^Invalid|^No auth|key/)
    expect(openRemote('ftp://x', 'k')).rejects.toThrow('--url: expected an address')
    const nobody = openRemoteSource(await openRemote('http://127.0.0.1:1', 'k'))
    expect(nobody.openFeed()).rejects.toThrow('No gateway answers at 127.0.0.1:1')
  })
})

test.each(['local', 'remote'] as const)('keys are created and changed: %s', async name => {
  const source = sources[name]
  expect(await source.createKey({ name, limit: 2 })).toStartWith('gw-')
  const find = async () => (await source.listKeys()).find(key => key.name === name)
  const hash = (await find())?.hash ?? ''
  await source.updateKey(hash, { disabled: true })
  await source.updateKey(hash, { limit: null })
  expect(await find()).toMatchObject({ disabled: true, limit: null })
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
