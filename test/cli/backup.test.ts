import { Database } from 'bun:sqlite'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  watch,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand as run } from '../support/commands.ts'
import { openDatabase } from '../support/database.ts'
import { buildLocalConfig, PROGRAM, type Server, startServer } from '../support/server.ts'
import { completion, delta, sseHead, startUpstream, type Upstream } from '../support/upstream.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-backup-'))
let names = 0
const newPath = (end = '') => join(root, `${++names}${end}`)

let upstream: Upstream
let server: Server

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.plan(completion('Hello'))
  server = await startServer({ config: buildLocalConfig(upstream.url) })
  for (let i = 0; i < 5; i++) await call()
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
  rmSync(root, { recursive: true, force: true })
})

async function call(): Promise<void> {
  const answer = await server.fetch('/chat/completions', {
    json: { model: 'acme/small', messages: [{ role: 'user', content: 'Hello' }] },
  })
  expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('Hello')])
}

/** Returns the sums of a data directory that must be equal, in nano-dollars. */
function readSums(data: string): { ledger: bigint; counted: bigint; recorded: bigint } {
  const db = openDatabase(data, { safeIntegers: true })
  const sum = (sql: string) => (db.query(`select coalesce(sum(${sql}`).get() as { n: bigint }).n
  const sums = {
    ledger: sum('nanos), 0) as n from ledger'),
    counted: sum('nanos), 0) as n from spend'),
    recorded: sum('upstream_inference_cost), 0) as n from generations'),
  }
  db.close()
  return sums
}

const backUp = (file: string, ...args: string[]) =>
  run(['backup', file, '--data', server.data, ...args])
const restore = (file: string, data: string, ...args: string[]) =>
  run(['restore', file, '--data', data, ...args])
const examine = async (data: string) => (await run(['doctor', '--data', data])).stdout

describe('S-12 a backup of a running server under load', () => {
  test('is restored whole, equal to the nano-dollar, with all calls before it', async () => {
    const before = readSums(server.data)
    let isOver = false
    let calls = 0
    const load = Array.from({ length: 8 }, async () => {
      while (!isOver) {
        await call()
        calls += 1
      }
    })
    const files = [newPath('.backup'), newPath('.backup'), newPath('.backup')]
    const started = Array.from(files, () => 0)
    for (const [i, file] of files.entries()) {
      started[i] = calls
      const { code, stderr } = await backUp(file, '--with-secret')
      expect([code, stderr]).toEqual([0, ''])
    }
    isOver = true
    await Promise.all(load)
    expect(calls).toBeGreaterThan(started[2] ?? 0)
    const after = readSums(server.data)
    let last = before.ledger
    for (const file of files) {
      const data = newPath()
      const { code, stderr } = await restore(file, data)
      expect([code, stderr]).toEqual([0, ''])
      expect(await examine(data)).not.toContain('WRONG')
      const sums = readSums(data)
      expect([sums.counted, sums.recorded]).toEqual([sums.ledger, sums.ledger])
      expect(sums.ledger).toBeGreaterThanOrEqual(last)
      expect(sums.ledger).toBeLessThanOrEqual(after.ledger)
      last = sums.ledger
    }
    expect(last).toBeGreaterThan(before.ledger)
  }, 120_000)

  test('holds exactly what an idle server has, and is served again', async () => {
    const [file, data] = [newPath('.backup'), newPath()]
    await backUp(file, '--with-secret', '--with-config')
    await restore(file, data)
    expect(readSums(data)).toEqual(readSums(server.data))
    const again = await startServer({ data, config: buildLocalConfig(upstream.url) })
    const answer = await again.fetch('/chat/completions', {
      key: server.inference_key,
      json: { model: 'acme/small', messages: [{ role: 'user', content: 'Hello' }] },
    })
    expect(answer.status).toBe(200)
    await answer.text()
    await again.stop()
    expect(await examine(data)).not.toContain('WRONG')
  })
})

describe('a call that runs while the backup is made', () => {
  test('is in the backup, and is charged when the restored directory is served', async () => {
    const own = await startUpstream()
    own.plan([sseHead(), delta('Hello '.repeat(20)), { wait: 'never' }])
    const running = await startServer({ config: buildLocalConfig(own.url) })
    const answer = await running.fetch('/chat/completions', {
      json: {
        model: 'acme/small',
        messages: [{ role: 'user', content: 'Hello' }],
        max_tokens: 50,
        stream: true,
      },
    })
    const reader = answer.body?.getReader()
    await reader?.read()
    const [file, data] = [newPath('.backup'), newPath()]
    await run(['backup', file, '--data', running.data, '--with-secret'])
    await restore(file, data)
    expect(await examine(data)).toContain('1 running, or to be settled')
    const again = await startServer({ data, config: buildLocalConfig(own.url) })
    await again.stop()
    const found = await examine(data)
    expect(found).not.toContain('WRONG')
    expect(found).toContain('no call runs')
    const sums = readSums(data)
    expect(sums.ledger).toBeGreaterThan(0n)
    expect([sums.counted, sums.recorded]).toEqual([sums.ledger, sums.ledger])
    await reader?.cancel()
    await running[Symbol.asyncDispose]()
    await own.close()
  })
})

describe('the file', () => {
  test('is readable by its owner only, and names what it holds', async () => {
    const file = newPath('.backup')
    const { stdout } = await backUp(file, '--json')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(JSON.parse(stdout).data).toMatchObject({
      keys: 2,
      parts: ['ledger.head', 'holds.log'],
      charged: Number(readSums(server.data).ledger) / 1e9,
    })
    expect(readdirSync(root).filter(name => name.startsWith('.'))).toEqual([])
  })

  test('holds the secret and the config on request only, and says so', async () => {
    const [plain, full] = [newPath('.backup'), newPath('.backup')]
    const secret = readFileSync(join(server.data, 'secret.key'))
    expect((await backUp(plain)).stdout).toContain('does not hold the secret')
    expect(readFileSync(plain).includes(secret)).toBe(false)
    expect((await backUp(full, '--with-secret', '--with-config')).stdout).toContain(
      'It holds the secret',
    )
    expect(readFileSync(full).includes(secret)).toBe(true)
    const data = newPath()
    await restore(full, data)
    expect(readFileSync(join(data, 'gateway.yaml'), 'utf8')).toContain('acme/small')
    expect(statSync(join(data, 'secret.key')).mode & 0o777).toBe(0o600)
  })

  test('holds with --with-config the key files that the config names, and names those elsewhere', async () => {
    const [source, file, data] = [newPath(), newPath('.backup'), newPath()]
    expect((await run(['init', '--data', source])).code).toBe(0)
    const config =
      `providers:\n  openai: { api_key: "\${file:openai.key}" }\n` +
      `  anthropic: { api_key: "\${file:../anthropic.key}" }\n`
    writeFileSync(join(source, 'gateway.yaml'), config)
    writeFileSync(join(source, 'openai.key'), 'sk-openai\n')
    writeFileSync(join(source, 'other.key'), 'sk-other\n')
    const args = ['--with-secret', '--with-config', '--data', source]
    const { code, stdout } = await run(['backup', file, ...args])
    expect([code, stdout]).toEqual([0, expect.stringContaining('elsewhere: ../anthropic.key\n')])
    expect(readFileSync(file).includes('sk-other')).toBe(false)
    expect((await run(['restore', file, '--data', data])).code).toBe(0)
    expect(readFileSync(join(data, 'openai.key'), 'utf8')).toBe('sk-openai\n')
    expect(statSync(join(data, 'openai.key')).mode & 0o777).toBe(0o600)
    expect(existsSync(join(data, 'other.key'))).toBe(false)
    const without = newPath('.backup')
    await run(['backup', without, '--data', source])
    expect(readFileSync(without).includes('sk-openai')).toBe(false)
  })

  test('replaces a key file on request only', async () => {
    const [source, file, data] = [newPath(), newPath('.backup'), newPath()]
    await run(['init', '--data', source])
    writeFileSync(join(source, 'gateway.yaml'), `providers: { x: { api_key: "\${file:x.key}" } }`)
    writeFileSync(join(source, 'x.key'), 'sk-x')
    await run(['backup', file, '--with-secret', '--with-config', '--data', source])
    mkdirSync(data, { mode: 0o700 })
    writeFileSync(join(data, 'x.key'), 'sk-y', { mode: 0o600 })
    const refused = await run(['restore', file, '--data', data])
    expect([refused.code, refused.stderr]).toEqual([
      4,
      expect.stringContaining('another x.key than the backup'),
    ])
    expect((await run(['restore', file, '--force', '--data', data])).code).toBe(0)
    expect(readFileSync(join(data, 'x.key'), 'utf8')).toBe('sk-x')
  })

  test('is not overwritten without --force', async () => {
    const file = newPath('.backup')
    writeFileSync(file, 'mine')
    const { code, stderr } = await backUp(file)
    expect([code, stderr]).toEqual([4, expect.stringContaining('exists')])
    expect(readFileSync(file, 'utf8')).toBe('mine')
    expect((await backUp(file, '--force')).code).toBe(0)
    expect(readFileSync(file, 'latin1')).toStartWith('SQLite format 3')
  })

  test('does not take the place of a file of the gateway, also with --force', async () => {
    const link = newPath()
    symlinkSync(server.data, link)
    for (const directory of [server.data, link])
      for (const name of ['gateway.db', 'gateway.db-wal', 'ledger.head', 'secret.key']) {
        const { code, stderr } = await backUp(join(directory, name), '--force')
        expect([code, stderr]).toEqual([2, expect.stringContaining('is a file of the gateway')])
      }
    await call()
  })

  test('replaces a link, and not what the link names', async () => {
    const [file, other] = [newPath('.backup'), newPath()]
    writeFileSync(other, 'mine')
    symlinkSync(other, file)
    expect((await backUp(file)).code).toBe(4)
    expect((await backUp(file, '--force')).code).toBe(0)
    expect(readFileSync(other, 'utf8')).toBe('mine')
  })

  test.each([
    ['a directory', () => root, 2],
    ['a path in no directory', () => join(root, 'none', 'x'), 3],
  ])('is not %s', async (_, getPath, code) => {
    expect((await backUp(getPath())).code).toBe(code)
  })

  test('is not written from a directory that is none', async () => {
    const data = newPath()
    expect((await run(['backup', newPath(), '--data', data])).code).toBe(3)
    expect(existsSync(data)).toBe(false)
  })

  test('is not written of a store that is not in order', async () => {
    const [data, file] = [newPath(), newPath('.backup')]
    cpSync(server.data, data, { recursive: true, filter: path => !path.endsWith('.sock') })
    const db = openDatabase(data)
    db.run("update keys set name = 'changed'")
    db.close()
    const { code, stderr } = await run(['backup', file, '--data', data])
    expect([code, stderr]).toEqual([4, expect.stringContaining('not in order: rules')])
    expect(existsSync(file)).toBe(false)
  })
})

describe('a backup that is interrupted', () => {
  test('by kill -9 leaves no file, and the next one removes what is left', async () => {
    const directory = newPath()
    mkdirSync(directory)
    const file = join(directory, 'full.backup')
    const begun = Promise.withResolvers<void>()
    const watcher = watch(directory, () => begun.resolve())
    const child = Bun.spawn([...PROGRAM, 'backup', file, '--data', server.data], {
      stdout: 'ignore',
      stderr: 'ignore',
    })
    await begun.promise
    watcher.close()
    child.kill('SIGKILL')
    await child.exited
    expect(existsSync(file)).toBe(false)
    expect(readdirSync(directory)).toEqual([expect.stringMatching(/^\.full\.backup\.\d+\.part$/)])
    expect((await backUp(file)).code).toBe(0)
    expect(readdirSync(directory)).toEqual(['full.backup'])
  })

  test('by a full disk leaves nothing', async () => {
    const directory = newPath()
    mkdirSync(directory)
    // A limit on the size of files fails as a full disk does.
    const command = [...PROGRAM, 'backup', join(directory, 'x'), '--data', server.data]
    const child = Bun.spawn(
      ['sh', '-c', 'trap "" XFSZ; ulimit -f 64; exec "$@"', 'sh', ...command],
      {
        stdout: 'ignore',
        stderr: 'pipe',
      },
    )
    expect(await child.exited).toBe(1)
    expect(await new Response(child.stderr).text()).toContain('Is the disk full?')
    expect(readdirSync(directory)).toEqual([])
  })
})

describe('gateway restore', () => {
  let file: string
  beforeAll(async () => {
    file = newPath('.backup')
    await backUp(file, '--with-secret')
  })
  let data: string
  afterEach(() => {
    // What was refused has left no directory behind.
    if (data !== '') expect(existsSync(data)).toBe(false)
    data = ''
  })

  /** Copies the backup, and changes it. */
  function copyChanged(...sql: string[]): string {
    const copy = newPath('.backup')
    cpSync(file, copy)
    const db = new Database(copy)
    for (const statement of sql) db.run(statement)
    db.close()
    return copy
  }

  test.each([
    ['a newer schema', ['pragma user_version = 999'], 1, 'newer gateway'],
    ['a changed rule', ["update keys set name = 'x'"], 4, 'not in order: rules'],
    ['a changed charge', ['update ledger set nanos = 1 where seq = 2'], 4, 'not in order'],
    ['rows that are missing at the end', ['delete from ledger where seq > 2'], 4, 'not in order'],
    ['a trigger', ['create trigger t after insert on keys begin select 1; end'], 4, 'schema'],
    ['a table more', ['create table more (a)'], 4, 'schema'],
    ['no files', ['drop table backup_parts'], 2, 'no backup'],
    [
      'a path that leads out',
      ["insert into backup_parts values ('../evil', x'00')"],
      2,
      'no backup has',
    ],
    [
      'an absolute path',
      ["insert into backup_parts values ('/tmp/evil', x'00')"],
      2,
      'no backup has',
    ],
    [
      'a database inside',
      ["insert into backup_parts values ('gateway.db', x'00')"],
      2,
      'no backup has',
    ],
    [
      'a secret of another size',
      ["update backup_parts set content = x'00' where name = 'secret.key'"],
      4,
      'not in order',
    ],
    [
      'another secret',
      ["update backup_parts set content = zeroblob(32) where name = 'secret.key'"],
      4,
      'This data was sealed with another secret than secret.key: set GATEWAY_SECRET, or',
    ],
    [
      'no secret',
      ["delete from backup_parts where name = 'secret.key'"],
      4,
      'set GATEWAY_SECRET, or put the secret.key that belongs to this data into',
    ],
  ] as [string, string[], number, string][])('refuses %s', async (_, sql, code, message) => {
    data = newPath()
    const result = await restore(copyChanged(...sql), data)
    expect([result.code, result.stderr]).toEqual([code, expect.stringContaining(message)])
  })

  test.each([
    ['a text', () => Buffer.from('nothing')],
    ['an empty file', () => Buffer.alloc(0)],
    ['a part of a backup', () => readFileSync(file).subarray(0, 40_000)],
    ['a page of zeroes', () => readFileSync(file).fill(0, 8192, 12_288)],
  ])('refuses %s', async (_, getContent) => {
    const [copy] = [newPath('.backup')]
    data = newPath()
    writeFileSync(copy, getContent())
    const { code, stderr } = await restore(copy, data)
    expect([code, stderr]).toEqual([2, expect.stringMatching(/no backup|damaged/)])
  })

  test('refuses a missing file', async () => {
    data = newPath()
    expect((await restore(newPath(), data)).code).toBe(3)
  })

  test('refuses a running server, also with --force', async () => {
    data = ''
    const before = readSums(server.data)
    const { code, stderr } = await restore(file, server.data, '--force')
    expect([code, stderr]).toEqual([4, expect.stringContaining('Another gateway serves')])
    expect(readSums(server.data)).toEqual(before)
  })

  test('takes the secret of the directory or of the environment', async () => {
    const plain = newPath('.backup')
    await backUp(plain)
    const directory = newPath()
    mkdirSync(directory, { mode: 0o700 })
    cpSync(join(server.data, 'secret.key'), join(directory, 'secret.key'))
    expect((await restore(plain, directory)).code).toBe(0)
    expect(await examine(directory)).not.toContain('WRONG')
  })

  test('replaces a directory with --force only, and keeps what was there', async () => {
    const directory = newPath()
    await run(['init', '--data', directory])
    const before = readFileSync(join(directory, 'gateway.db'))
    const refused = await restore(file, directory)
    expect([refused.code, refused.stderr]).toEqual([4, expect.stringContaining('not empty')])
    expect(readFileSync(join(directory, 'gateway.db'))).toEqual(before)
    const { code, stdout } = await restore(file, directory, '--force')
    expect([code, stdout]).toEqual([0, expect.stringContaining('What was there is in')])
    const aside = readdirSync(directory).find(name => name.startsWith('before-restore-')) ?? ''
    expect(await examine(join(directory, aside))).not.toContain('WRONG')
    expect(await examine(directory)).not.toContain('WRONG')
    expect(readSums(directory).ledger).toBeGreaterThan(0n)
  })

  test('follows no link in the directory', async () => {
    const [directory, outside] = [newPath(), newPath()]
    mkdirSync(directory, { mode: 0o700 })
    writeFileSync(outside, 'mine')
    symlinkSync(outside, join(directory, 'ledger.head'))
    symlinkSync(outside, join(directory, 'secret.key'))
    expect((await restore(file, directory, '--force')).code).not.toBe(0)
    expect(readFileSync(outside, 'utf8')).toBe('mine')
  })

  test('refuses a directory that others may write', async () => {
    const directory = newPath()
    mkdirSync(directory)
    chmodSync(directory, 0o777)
    expect((await restore(file, directory)).code).toBe(5)
  })

  test('killed in the middle keeps others out until it is repeated', async () => {
    const directory = newPath()
    mkdirSync(directory, { mode: 0o700 })
    const begun = Promise.withResolvers<void>()
    const watcher = watch(directory, (_, name) => {
      if (name === 'restore.part') begun.resolve()
    })
    const child = Bun.spawn([...PROGRAM, 'restore', file, '--data', directory], {
      stdout: 'ignore',
      stderr: 'ignore',
    })
    await begun.promise
    watcher.close()
    child.kill('SIGKILL')
    await child.exited
    const { code, stderr } = await run(['keys', 'list', '--data', directory])
    expect([code, stderr]).toEqual([4, expect.stringContaining('was interrupted')])
    expect((await restore(file, directory)).code).toBe(0)
    expect(await examine(directory)).not.toContain('WRONG')
  })
})
