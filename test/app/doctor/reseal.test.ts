import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { cpSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { openGateway } from '../../../src/app/gateway.ts'
import { toDayNumber } from '../../../src/base/clock.ts'
import type { AuditEntry } from '../../../src/resources/audit/store.ts'
import { runCommand as run } from '../../support/commands.ts'
import { openDatabase } from '../../support/database.ts'
import { buildGeneration, buildStepCharge } from '../../support/generation.ts'
import { type CommandResult, PROGRAM, startServer } from '../../support/server.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-reseal-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let original: string
let directories = 0

beforeAll(async () => {
  const server = await startServer()
  const provider_key = 'sk-ant-REDACTED'
  const byok = await server.fetch('/byok', {
    key: server.management_key,
    json: { provider: 'anthropic', key: provider_key },
  })
  expect(byok.status).toBeLessThan(300)
  const preset = await server.fetch('/presets/careful/chat/completions', {
    json: { model: 'sandbox/echo', messages: [{ role: 'system', content: PROMPT }] },
  })
  expect(preset.status).toBeLessThan(300)
  await server.stop()
  original = join(root, 'original')
  cpSync(server.data, original, { recursive: true, filter: one => !one.endsWith('.sock') })
  rmSync(server.data, { recursive: true, force: true })
  await charge(original, 'gen-1', 'gen-2')
})

/** A system prompt with a credential, which is encrypted where it is stored. */
const PROMPT = `Send ${'sk-proj-'}in-the-prompt-Ab3dEf6hIj9kLmN0`

/** Charges calls of these ids. */
async function charge(data: string, ...ids: string[]): Promise<void> {
  const gateway = await openGateway({ data })
  const settled_at = new Date().toISOString()
  const day = toDayNumber(new Date())
  for (const id of ids)
    await gateway.store.generations.record([
      {
        generation: buildGeneration({ id, settled_at, upstream_inference_cost: 5n }),
        charge: buildStepCharge({ id, day, settled_at, nanos: 5n }),
      },
    ])
  await gateway.close()
}

/** Copies the directory, and changes its database as another program would. */
function copyChanged(sql: string[] = []): string {
  const data = join(root, String(++directories))
  cpSync(original, data, { recursive: true })
  const db = openDatabase(data)
  for (const statement of sql) db.run(statement)
  db.close()
  return data
}

const listWrong = ({ stdout }: CommandResult): string[] =>
  (JSON.parse(stdout).data as { check: string; ok: boolean }[])
    .filter(({ ok }) => !ok)
    .map(({ check }) => check)

const examine = async (data: string, env = {}): Promise<string[]> =>
  listWrong(await run(['doctor', '--json', '--data', data], { env }))

const reseal = (data: string, args: string[] = ['--yes'], env = {}): Promise<CommandResult> =>
  run(['doctor', '--reseal', '--reason', 'repaired by hand', '--data', data, ...args], { env })

const RAISED = `update keys set "limit" = 1000000000000`

describe('gateway doctor --reseal', () => {
  const REPAIRS: [what: string, sql: string[]][] = [
    ['a changed rule', [RAISED]],
    ['an added and a removed row', ["insert into credits values (9, 'x', '', 1, null, 'u')"]],
    ['a row removed with its seal', ['delete from byok', "delete from seals where noun = 'byok'"]],
    ['a changed ledger', ["update ledger set user_id = 'somebody else'"]],
    ['a log without its opening', ['delete from seal_log where n = 1']],
    ['no seals at all', ['delete from seals', 'delete from seal_log']],
  ]
  test.each(REPAIRS)('accepts %s, and finds the next change', async (_, sql) => {
    const data = copyChanged(sql)
    expect(await examine(data)).not.toEqual([])
    const { code, stdout } = await reseal(data)
    expect([code, stdout]).toEqual([0, expect.stringContaining('This is accepted as it stands')])
    expect(await examine(data)).toEqual([])
    await run(['keys', 'create', '--name', 'later', '--data', data])
    expect(await examine(data)).toEqual([])
    for (const next of [
      "update keys set name = 'x'",
      "update ledger set workspace_id = 'x' where seq = 1",
      "update ledger set hash = 'x' where seq = 1",
      'update seal_log set sum = 0 where n = (select max(n) - 1 from seal_log)',
      'update seal_log set opening = null where n = ' +
        '(select max(n) from seal_log where opening is not null)',
    ]) {
      const copy = join(root, String(++directories))
      cpSync(data, copy, { recursive: true })
      const db = openDatabase(copy)
      db.run(next)
      db.close()
      expect([next, await examine(copy)]).not.toEqual([next, []])
    }
  })

  test('a charge after it continues the chain, and the ledger may not end before it', async () => {
    const data = copyChanged(["update ledger set user_id = 'somebody else'"])
    await reseal(data)
    await charge(data, 'gen-3', 'gen-4')
    expect(await examine(data)).toEqual([])
    const db = openDatabase(data)
    db.run('delete from ledger')
    db.close()
    expect(await examine(data)).toContain('chain')
  })

  test('writes who resealed what and why into the audit trail', async () => {
    const data = copyChanged([RAISED])
    await reseal(data)
    const { stdout } = await run(['audit', 'list', '--json', '--data', data])
    const [entry] = JSON.parse(stdout).data
    expect(entry).toMatchObject({
      action: 'seals.reseal',
      resource_id: 'seals',
      actor: 'operator',
      before: { accepted: [expect.stringMatching(/^rules: keys .* was changed/)] },
      after: {
        reason: 'repaired by hand',
        system_user: userInfo().username,
        new_secret: false,
      },
    })
  })

  test.each([
    ['without a yes where nobody can be asked', [], 2, '--yes answers yes'],
    ['with a reason that is empty', ['--yes', '--reason', ''], 2, 'reason'],
  ] as const)('changes nothing %s', async (_, args, code, message) => {
    const data = copyChanged([RAISED])
    const result = await reseal(data, [...args])
    expect([result.code, result.stderr]).toEqual([code, expect.stringContaining(message)])
    expect(await examine(data)).toEqual(['rules'])
  })

  test('says what is broken before it asks', async () => {
    const { stdout } = await reseal(copyChanged([RAISED]), [])
    expect(stdout).toContain('was changed by another program')
  })

  const script = Bun.which('script')
  test.skipIf(script === null).each([
    ['n\n', 4, ['rules']],
    ['\x04', 4, ['rules']],
    ['yes\n', 0, []],
  ])('asks on a terminal, and takes %j', async (input, code, wrong) => {
    const data = copyChanged([RAISED])
    const command = [...PROGRAM, 'doctor', '--reseal', '--reason', 'why', '--data', data]
    const child = Bun.spawn([script as string, '-qec', command.join(' '), '/dev/null'], {
      stdin: 'pipe',
      stdout: 'pipe',
    })
    // What is typed before a terminal is read may be lost.
    let said = ''
    for await (const piece of child.stdout) {
      const isAsked = said.includes('[y/N]')
      said += Buffer.from(piece).toString()
      if (isAsked || !said.includes('[y/N]')) continue
      child.stdin.write(input)
      child.stdin.end()
    }
    expect(said).toContain('[y/N]')
    expect([await child.exited, await examine(data)]).toEqual([code, wrong])
  })

  test('is refused where nothing is broken, and without a reason', async () => {
    const intact = await reseal(copyChanged())
    expect([intact.code, intact.stderr]).toEqual([4, expect.stringContaining('nothing to reseal')])
    const data = copyChanged([RAISED])
    expect((await run(['doctor', '--reseal', '--yes', '--data', data])).code).toBe(2)
    expect((await run(['doctor', '--yes', '--data', data])).code).toBe(2)
    expect((await run(['doctor', '--reason', 'x', '--data', data])).code).toBe(2)
  })

  test('is refused where another program has left a trigger', async () => {
    const data = copyChanged([
      RAISED,
      'create trigger forgive after insert on spend begin update spend set nanos = 0; end',
    ])
    const { code, stderr } = await reseal(data)
    expect([code, stderr]).toEqual([4, expect.stringContaining('trigger forgive was added')])
    expect(await examine(data)).toEqual(['schema', 'rules'])
  })

  test('is refused while a server runs', async () => {
    const data = copyChanged([RAISED])
    const server = await startServer({ data })
    const { code, stderr } = await reseal(data)
    expect([code, stderr]).toEqual([4, expect.stringContaining('Another gateway serves')])
    await server.stop()
    expect(await examine(data)).toEqual(['rules'])
  })
})

describe('another secret', () => {
  /** Replaces the secret's file as docs/operations.md says. */
  function rotate(data: string): void {
    renameSync(join(data, 'secret.key'), join(data, 'secret.key.previous'))
  }

  test('seals and encrypts everything again, once', async () => {
    const data = copyChanged()
    rotate(data)
    expect(await examine(data)).toEqual(['secret'])
    const { code, stdout } = await reseal(data)
    expect(code).toBe(0)
    expect(stdout).toContain('What the previous secret has sealed is sealed with the current one')
    expect(stdout).not.toContain('accepted')
    rmSync(join(data, 'secret.key.previous'))
    expect(await examine(data)).toEqual([])
    const gateway = await openGateway({ data })
    const [preset] = await gateway.store.presets.all()
    expect(JSON.stringify(preset)).toContain(PROMPT)
    await gateway.close()
    expect((await reseal(data)).code).toBe(4)
  })

  test('in the environment too', async () => {
    const data = copyChanged()
    const [first, second] = [{ GATEWAY_SECRET: 'first' }, { GATEWAY_SECRET: 'second' }]
    rotate(data)
    expect((await reseal(data, ['--yes'], first)).code).toBe(0)
    expect(await examine(data, first)).toEqual([])
    const both = { ...second, GATEWAY_PREVIOUS_SECRET: 'first' }
    expect((await reseal(data, ['--yes'], both)).code).toBe(0)
    expect(await examine(data, second)).toEqual([])
    expect(await examine(data, first)).toEqual(['secret'])
  })

  test('is not taken with another previous one than its own, which would lose what is encrypted', async () => {
    const data = copyChanged()
    rmSync(join(data, 'secret.key'))
    const wrong = { GATEWAY_SECRET: 'second', GATEWAY_PREVIOUS_SECRET: 'not the first' }
    const { code, stderr } = await reseal(data, ['--yes'], wrong)
    expect([code, stderr]).toEqual([4, expect.stringContaining('has sealed nothing here')])
    cpSync(join(original, 'secret.key'), join(data, 'secret.key.previous'))
    expect((await reseal(data, ['--yes'], { GATEWAY_SECRET: 'second' })).code).toBe(0)
  })

  test('hides no change of another program: it is named and must be accepted', async () => {
    const data = copyChanged([RAISED, "update ledger set user_id = 'somebody else'"])
    rotate(data)
    const { stdout } = await reseal(data, [])
    expect(stdout).toContain('was changed by another program')
    expect(stdout).toContain('row 1 (')
    expect(stdout).not.toContain('audit')
  })

  test('keeps the previous one as genuine for what was changed in between', async () => {
    const data = copyChanged()
    rotate(data)
    await run(['keys', 'create', '--name', 'in between', '--data', data])
    const { code, stdout } = await reseal(data)
    expect([code, stdout.includes('accepted')]).toEqual([0, false])
    expect(await examine(data)).toEqual([])
  })

  test('without the previous one accepts everything, and says what cannot be decrypted', async () => {
    const data = copyChanged()
    rmSync(join(data, 'secret.key'))
    const { code, stdout } = await reseal(data)
    expect([code, stdout]).toEqual([1, expect.stringContaining('sealed with another secret')])
    expect(await examine(data)).toEqual(['provider keys'])
  })

  test('killed in the middle has changed nothing, and can be repeated', async () => {
    const data = copyChanged()
    rotate(data)
    const gateway = await openGateway({ data })
    const readAll = () => {
      const db = openDatabase(data)
      const rows = ['byok', 'preset_versions', 'seals', 'seal_log', 'audit'].map(table =>
        db.query(`select * from ${table}`).all(),
      )
      db.close()
      return rows
    }
    const before = readAll()
    const { entries } = await gateway.store.audit.listPage({}, 0, 1)
    // The entry exists already, so the transaction fails after everything was encrypted again.
    const failed = gateway.store.seals.reseal(entries[0] as AuditEntry, gateway.secrets.previous())
    expect(await failed.catch(({ code }) => code)).toBe('SQLITE_CONSTRAINT_UNIQUE')
    expect(readAll()).toEqual(before)
    await gateway.close()
    expect((await reseal(data)).code).toBe(0)
    expect(await examine(data)).toEqual([])
  })
})
