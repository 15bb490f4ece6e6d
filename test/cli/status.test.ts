import { afterAll, describe, expect, test } from 'bun:test'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { VERSION } from '../../src/base/version.ts'
import { runCommand } from '../support/commands.ts'
import { openDatabase } from '../support/database.ts'
import { buildLocalConfig, runGateway, startServer } from '../support/server.ts'
import { completion, startUpstream, status } from '../support/upstream.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-status-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const ask = (data: string, ...args: string[]) => runCommand(['status', '--data', data, ...args])
const read = async (data: string) => JSON.parse((await ask(data, '--json')).stdout).data

const call = { model: 'acme/small', messages: [{ role: 'user', content: 'Hello' }] }

describe('gateway status', () => {
  test('shows the server of a data directory: address, version, uptime, config', async () => {
    await using server = await startServer()
    expect(await read(server.data)).toEqual({
      url: server.url,
      metrics_url: null,
      version: VERSION,
      store: 'directory',
      pid: server.process.pid,
      started_at: expect.any(String),
      uptime_seconds: expect.any(Number),
      running_calls: 0,
      draining: false,
      cooldown_count: 0,
      cooldowns: [],
      resting_credentials: [],
      catalog: { generated: expect.any(String), is_installed: false, problem: null },
      write_log: { bytes: expect.any(Number), held: false },
      config: {
        file: join(server.data, 'gateway.yaml'),
        applied_at: expect.any(String),
        rejected: false,
        reason: null,
      },
    })
    const { code, stdout } = await ask(server.data)
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^state +serving\naddress +http:/)])
    expect(statSync(join(server.data, 'serve.sock')).mode & 0o077).toBe(0)
  })

  test('counts running calls, and lists endpoints that are cooling down', async () => {
    const upstream = await startUpstream()
    const config = { ...buildLocalConfig(upstream.url), routing: { failures: 1 } }
    await using server = await startServer({ config })
    upstream.answer(() => status(500, 'Broken'))
    await (await server.fetch('/chat/completions', { json: call })).text()
    const { cooldowns, cooldown_count } = await read(server.data)
    expect(cooldown_count).toBe(1)
    expect(cooldowns).toMatchObject([{ endpoint: expect.stringContaining('acme/small') }])
    expect(cooldowns[0].seconds_left).toBeGreaterThan(0)
    expect((await ask(server.data)).stdout).toMatch(/\nCOOLING DOWN +REASON +SECONDS LEFT\n/)
    upstream.answer(() => [{ wait: 'held' }, ...completion('Hello')])
    const answer = server.fetch('/chat/completions', { json: call })
    await upstream.reached('held')
    expect((await read(server.data)).running_calls).toBe(1)
    upstream.open('held')
    await (await answer).text()
    await upstream.close()
  })

  test('lists the credentials that rest, by their names, for what and how long', async () => {
    const upstream = await startUpstream()
    const { providers, ...config } = buildLocalConfig(upstream.url)
    const { api_key: _, ...local } = providers.local
    const credentials = [
      { name: 'first', api_key: 'secret-one' },
      { name: 'second', api_key: 'secret-two' },
    ]
    await using server = await startServer({
      config: { ...config, providers: { local: { ...local, credentials } } },
    })
    upstream.answer(() => status(401, 'No'))
    await (await server.fetch('/chat/completions', { json: call })).text()
    const rest = { provider: 'local', model: null, seconds_left: expect.any(Number) }
    const { resting_credentials: rests } = await read(server.data)
    expect(rests).toHaveLength(2)
    for (const name of ['first', 'second'])
      expect(rests).toContainEqual({ ...rest, credential: name, reason: expect.any(String) })
    const { stdout } = await ask(server.data)
    expect(stdout).toMatch(/\nRESTING CREDENTIAL +MODEL +REASON +SECONDS LEFT\nlocal .* all /)
    expect(stdout).not.toContain('secret')
    await upstream.close()
  })

  test('exits with 1 while a newer config is rejected, and says why', async () => {
    await using server = await startServer()
    writeFileSync(join(server.data, 'gateway.yaml'), 'limits: { max_tokens: none }')
    server.process.kill('SIGHUP')
    let result = await ask(server.data)
    while (result.code === 0) result = await ask(server.data)
    expect([result.code, result.stdout]).toEqual([
      1,
      expect.stringMatching(/\nrejected +.*gateway\.yaml:1:\d+: limits\.max_tokens: expected /),
    ])
  })

  test('exits with 1 while a reader keeps the log of the store from being shortened', async () => {
    await using server = await startServer()
    const [reader, writer] = [openDatabase(server.data), openDatabase(server.data)]
    reader.run('begin')
    reader.query('select count(*) from generations').get()
    writer.run('create table scratch (value blob)')
    for (let i = 0; i < 9; i++) writer.run('insert into scratch values (zeroblob(8388608))')
    let result = await ask(server.data)
    while (result.code === 0) result = await ask(server.data)
    expect([result.code, result.stdout]).toEqual([
      1,
      expect.stringMatching(/\nstorage +a process that reads .* being shortened: \d+ MiB\n/),
    ])
    reader.close()
    while (result.code !== 0) result = await ask(server.data)
    writer.run('drop table scratch')
    writer.close()
  })

  test('exits with 3 where no server runs: none yet, one stopped, one killed', async () => {
    const data = join(directory, 'still')
    await runCommand(['init', '--data', data])
    const refusal = { code: 3, stdout: '', stderr: expect.stringContaining('No server runs on') }
    expect(await ask(data)).toEqual(refusal)
    expect(await ask(join(directory, 'nowhere'))).toEqual(refusal)
    expect(existsSync(join(directory, 'nowhere'))).toBe(false)
    const stopped = await startServer({ data })
    await stopped.stop()
    expect([existsSync(join(data, 'serve.sock')), (await ask(data)).code]).toEqual([false, 3])
    const killed = await startServer({ data })
    await killed.kill()
    expect([existsSync(join(data, 'serve.sock')), (await ask(data)).code]).toEqual([true, 3])
    await using again = await startServer({ data })
    expect((await read(data)).pid).toBe(again.process.pid)
  })

  test('works in a directory with a long path', async () => {
    const data = join(directory, 'd'.repeat(100), 'e'.repeat(100))
    mkdirSync(data, { recursive: true, mode: 0o700 })
    await using server = await startServer({ data })
    expect((await read(data)).url).toBe(server.url)
  })

  test('says who holds a directory whose server does not tell', async () => {
    await using server = await startServer()
    rmSync(join(server.data, 'serve.sock'))
    const { code, stderr } = await runGateway(['status', '--data', server.data])
    expect(code).toBe(1)
    expect(stderr).toContain(`(process ${server.process.pid}), which does not tell its state`)
  })
})

describe('links of commands', () => {
  const link = async (data: string) => {
    const made = await runCommand(['members', 'create', '--email', 'a@b.c', '--data', data])
    expect(made.code).toBe(0)
    return (await runCommand(['members', 'link', 'a@b.c', '--data', data])).stdout
  }

  test('lead to the server that runs, wherever it listens', async () => {
    await using server = await startServer()
    expect(await link(server.data)).toStartWith(`${server.url}/auth/sign-in?token=`)
  })

  test('lead to server.site_url where there is one', async () => {
    const config = { server: { site_url: 'https://gateway.example.com' } }
    await using server = await startServer({ config })
    expect(await link(server.data)).toStartWith('https://gateway.example.com/auth/sign-in?token=')
  })
})

describe('commands beside a server', () => {
  const models = [{ id: 'acme/served', endpoints: [{ provider: 'sandbox', model: 'echo' }] }]
  const file = join(directory, 'served.yaml')
  writeFileSync(
    file,
    JSON.stringify({
      providers: {
        served: {
          protocol: 'openai-chat',
          base_url: 'http://127.0.0.1:9/v1',
          api_key: `\${file:served.key}`,
        },
      },
      models,
    }),
  )
  writeFileSync(join(directory, 'served.key'), 'sk-served')
  writeFileSync(join(directory, 'body.json'), JSON.stringify({ ...call, model: 'acme/served' }))

  test('speak of its config, wherever that is', async () => {
    await using server = await startServer({ args: ['--config', file] })
    const beside = async (...args: string[]) => {
      const { code, stdout, stderr } = await runCommand([...args, '--data', server.data])
      expect([args, code, stderr]).toEqual([args, 0, ''])
      return stdout
    }
    expect(await beside('models', 'list', '--q', 'served')).toContain('acme/served')
    expect(await beside('providers', 'list')).toMatch(/^served .* configured$/m)
    expect(await beside('providers', 'check', 'sandbox')).toContain('sandbox')
    expect(await beside('tools', 'list', '--json')).toContain('data')
    expect(await beside('explain', join(directory, 'body.json'))).toContain('go to sandbox first')
    expect(await beside('config', 'show', '--set')).toContain('acme/served')
    expect(await beside('config', 'check')).toStartWith(`${file}: `)
    const [backup, restored] = [join(directory, 'b.backup'), join(directory, 'restored')]
    await beside('backup', backup, '--with-secret', '--with-config')
    expect((await runCommand(['restore', backup, '--data', restored])).code).toBe(0)
    expect(readFileSync(join(restored, 'gateway.yaml'), 'utf8')).toBe(readFileSync(file, 'utf8'))
    expect(readFileSync(join(restored, 'served.key'), 'utf8')).toBe('sk-served')
  })

  test('say which file they read where another is named', async () => {
    await using server = await startServer({ args: ['--config', file] })
    const own = join(server.data, 'gateway.yaml')
    const args = ['config', 'show', '--set', '--config', own, '--data', server.data]
    expect(await runCommand(args)).toMatchObject({
      code: 0,
      stderr: `Read ${own}: the server that runs on this data started with ${file}\n`,
    })
    const status = await runCommand(['status', '--config', own, '--data', server.data])
    expect([status.code, status.stderr]).toEqual([0, ''])
  })
})
