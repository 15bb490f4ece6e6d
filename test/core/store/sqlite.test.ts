import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GatewayError } from '../../../src/core/errors.ts'
import { firstWorkspace } from '../../../src/core/identity/workspaces.ts'
import { lockData } from '../../../src/core/store/lock.ts'
import { openSqlite } from '../../../src/core/store/sqlite.ts'
import { storeSuite } from '../../suites/store.ts'
import { told } from '../../support/audit.ts'
import { entryOf, generationWith, PAYER } from '../../support/generation.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
let files = 0
const newPath = () => join(directory, `${++files}.db`)
const open = (path: string, patience = 0) => openSqlite({ path, durability: 'normal', patience })

afterAll(() => rmSync(directory, { recursive: true, force: true }))

const byokKey = {
  ...{ id: 'b', workspace_id: 'w', provider: 'openai', name: null, label: '...', sealed: '', sort_order: 0, created_at: '' },
  ...{ disabled: false, is_fallback: false, is_byok_only: false, is_required: false, declared_zdr: null },
  ...{ allowed_models: null, allowed_api_key_hashes: null, allowed_user_ids: null },
}

storeSuite('SQLite in memory', () => open(':memory:'))
storeSuite('SQLite in a file', () => open(newPath()))
storeSuite('SQLite in a file, fully durable', () => openSqlite({ path: newPath(), durability: 'full', patience: 0 }))

describe('SQLite in a file', () => {
  test('what was written is there after it was closed and opened', async () => {
    const path = newPath()
    const before = await open(path)
    await before.generations.record([entryOf('a')])
    await before.close()
    const after = await open(path)
    expect((await after.generations.byId('a'))?.id).toBe('a')
    expect(await after.ledger.totals()).toEqual([{ ...PAYER, byok: false, nanos: 4_500n }])
    await after.close()
  })

  test('a deleted provider key leaves nothing of what was sealed, and that there was one', async () => {
    const path = newPath()
    const store = await open(path)
    await store.workspaces.first(firstWorkspace('w', 'u', new Date()))
    await store.byok.insert({ ...byokKey, sealed: 'sealed-canary' }, told())
    await store.byok.remove('b', '2026-03-05T00:00:00.000Z', told())
    await store.close()
    const db = new Database(path)
    expect(db.query('select id, sealed, deleted_at from byok').all()).toEqual([
      { id: 'b', sealed: null, deleted_at: '2026-03-05T00:00:00.000Z' },
    ])
    db.close()
  })

  test('what was changed and what was paid in can be neither changed nor removed, by no statement', async () => {
    const path = newPath()
    const store = await open(path)
    await store.keys.remove('nobody', told())
    await store.credits.insert({ id: 'c', created_at: '', amount: 1n, note: null, user_id: 'u' }, told())
    await store.close()
    const db = new Database(path)
    for (const statement of ['delete from audit', "update audit set actor = 'x'", "update audit set before = '{}'"])
      expect(() => db.run(statement)).toThrow('stays on record')
    for (const statement of ['delete from credits', 'update credits set amount = 1'])
      expect(() => db.run(statement)).toThrow('stays on record')
    expect(db.query('select count(*) as count from audit').get()).toEqual({ count: 2 })
    db.close()
  })

  test('its version moves exactly when another connection writes', async () => {
    const path = newPath()
    const [server, terminal] = [await open(path), await open(path)]
    const before = await server.version()
    await terminal.workspaces.all()
    expect(await server.version()).toBe(before)
    await terminal.workspaces.first(firstWorkspace('w', 'u', new Date()))
    expect(await server.version()).not.toBe(before)
    expect(await server.workspaces.all()).toHaveLength(1)
    await Promise.all([server.close(), terminal.close()])
  })

  test('without patience a locked store refuses at once, and works again when it is free', async () => {
    const path = newPath()
    const store = await open(path)
    const other = new Database(path)
    other.run('begin immediate')
    const began = performance.now()
    expect(await store.generations.record([entryOf('a')]).catch(() => 'refused')).toBe('refused')
    expect(performance.now() - began).toBeLessThan(500)
    other.run('commit')
    await store.generations.record([entryOf('a')])
    expect((await store.generations.byId('a'))?.id).toBe('a')
    other.close()
    await store.close()
  })

  test('a file of the first schema is brought up to date, and what it remembers stays', async () => {
    const path = newPath()
    const old = new Database(path, { create: true })
    old.run(await Bun.file(join(import.meta.dir, '../../../src/core/store/sqlite/migrations/001-first.sql')).text())
    old.run('pragma user_version = 1')
    const { preset_id: _, contentFilters: __, data_region: ___, router: ____, provider_responses, ...known } = generationWith({ id: 'a' })
    const row = { ...known, provider_responses: JSON.stringify(provider_responses) }
    const names = Object.keys(row)
    old.query(`insert into generations (${names}) values (${names.map(() => '?')})`).run(...(Object.values(row) as never[]))
    old.close()
    const store = await open(path)
    expect(await store.generations.byId('a')).toEqual(generationWith({ id: 'a', preset_id: null, data_region: 'global', router: null }))
    expect(await store.presets.all()).toEqual([])
    await store.close()
  })

  test('a file of a newer program is refused, and left as it is', async () => {
    const path = newPath()
    await (await open(path)).close()
    const db = new Database(path)
    db.run('pragma user_version = 999')
    db.close()
    expect(open(path)).rejects.toThrow('newer gateway')
    const after = new Database(path)
    expect(after.query('pragma user_version').get()).toEqual({ user_version: 999 })
    after.close()
  })

  test('a file that is no database is refused, and left as it is', async () => {
    const path = newPath()
    const text = 'not a database, but somebody’s diary'.repeat(100)
    writeFileSync(path, text)
    expect(open(path)).rejects.toThrow()
    expect(await Bun.file(path).text()).toBe(text)
  })

  test('a directory in the place of the file is refused', () => {
    const path = newPath()
    mkdirSync(path)
    expect(open(path)).rejects.toThrow()
  })

  test('two that open an empty file at once agree on its owner', async () => {
    const path = newPath()
    const [a, b] = await Promise.all([open(path, 1_000), open(path, 1_000)])
    const owners = await Promise.all([a.owner({ user_id: 'a', workspace_id: 'a' }), b.owner({ user_id: 'b', workspace_id: 'b' })])
    expect(owners[0]).toEqual(owners[1])
    await Promise.all([a.close(), b.close()])
  })
})

describe('the lock of a data directory', () => {
  test('keeps a second server out until it is let go', () => {
    const data = join(directory, 'locked')
    const unlock = lockData(data)
    let thrown: unknown
    try {
      lockData(data)
    } catch (error) {
      thrown = error
    }
    expect(GatewayError.from(thrown)).toMatchObject({ type: 'conflict', message: `Another gateway serves from ${data}` })
    unlock()
    lockData(data)()
  })
})
