import { afterAll, expect, test } from 'bun:test'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import S3rver from 's3rver'
import { openGateway } from '../../src/app/gateway.ts'
import { parseConfig } from '../../src/config.ts'
import { BUCKET_KEYS } from '../support/bucket.ts'
import { waitUntil } from '../support/chat.ts'
import { createTestKeys } from '../support/gateway.ts'
import { hasPostgres, startPostgres } from '../support/postgres.ts'
import { PROGRAM, readAddress, runGateway, Server } from '../support/server.ts'

if (await hasPostgres()) {
  const postgres = await startPostgres()
  const root = mkdtempSync(join(tmpdir(), 'gateway-nodes-cli-'))
  const bucket = new S3rver({
    ...{ address: '127.0.0.1', port: 0, silent: true, directory: join(root, 's3') },
    configureBuckets: [{ name: 'files', configs: [] }],
  })
  const endpoint = `http://127.0.0.1:${(await bucket.run()).port}`
  const provider = startProvider()
  const servers: Server[] = []
  afterAll(async () => {
    for (const server of servers) if (server.process.exitCode === null) await server.kill()
    await provider.stop()
    await bucket.close()
    await postgres[Symbol.asyncDispose]()
    rmSync(root, { recursive: true, force: true })
  })

  const env = { GATEWAY_SECRET: 'a secret of tests that is long enough' }

  /** Each server has a key of its own for the provider, which says who asks. */
  const buildConfig = (api_key: string) => ({
    storage: {
      postgres: { url: postgres.url },
      files: 's3',
      s3: { endpoint, bucket: 'files', ...BUCKET_KEYS },
    },
    batches: { concurrency: 1 },
    providers: { local: { protocol: 'openai-chat', base_url: provider.url, api_key } },
    models: [
      { id: 'acme/small', endpoints: [{ provider: 'local', model: 'up' }] },
      {
        id: 'acme/film',
        output_modalities: ['video'],
        endpoints: [{ provider: 'local', model: 'film-1' }],
      },
    ],
  })

  const first = join(root, 'first')

  async function createKeys() {
    const config = parseConfig(JSON.stringify(buildConfig('none')), {})
    const parts = { data: first, secret: env.GATEWAY_SECRET }
    const gateway = await openGateway({ ...parts, config })
    const keys = await createTestKeys(gateway)
    await gateway.close()
    return keys
  }

  async function start(name: string): Promise<Server> {
    const data = join(root, name)
    // A node knows the end of the ledger, as any that has served does.
    cpSync(first, data, { recursive: true, filter: file => !file.endsWith('node.id') })
    writeFileSync(join(data, 'gateway.yaml'), JSON.stringify(buildConfig(name)))
    // Without the first keys of a store of its own, which it would take for lost.
    const child = Bun.spawn([...PROGRAM, 'serve', '--port', '0', '--data', data, '--log', 'json'], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const stderr = new Response(child.stderr).text()
    const keys = { management_key: '', inference_key: '' }
    const server = new Server(data, await readAddress(child, stderr), keys, child, stderr)
    servers.push(server)
    return server
  }

  const ask = async (server: Server, key: string, path: string, json?: object) =>
    (await server.fetch(path, { key, json })).json() as Promise<Record<string, string>>

  test('the jobs of a server that stands still or is killed go on at another, and each is done once', async () => {
    const { inference: key } = await createKeys()
    const [a, b] = [await start('a'), await start('b')]
    const film = { model: 'acme/film', prompt: 'A cat' }
    const { id: job } = await ask(b, key, '/videos', film)
    // It waits for its next turn then, which is over when it goes on.
    await waitUntil(async () => (await ask(b, key, `/videos/${job}`)).status === 'in_progress')

    a.process.kill('SIGSTOP')
    const before = provider.countPolls('a')
    await waitUntil(() => provider.countPolls('b') > 0)
    a.process.kill('SIGCONT')
    expect((await fetch(`${a.url}/health`)).status).toBe(200)
    const { stdout } = await runGateway(['nodes', 'list', '--data', b.data, '--json'], { env })
    const nodes: { state: string; has_jobs: boolean }[] = JSON.parse(stdout).data
    expect(nodes.map(({ has_jobs }) => has_jobs).toSorted()).toEqual([false, true])
    provider.end()
    await waitUntil(async () => (await ask(a, key, `/videos/${job}`)).status === 'completed')
    expect(provider.countPolls('a')).toBe(before)

    const requests = ['one', 'two', 'three', 'four'].map(custom_id => ({
      custom_id,
      body: { model: 'acme/small', messages: [{ role: 'user', content: custom_id }] },
    }))
    const batch = await ask(a, key, '/batches', { endpoint: '/v1/chat/completions', requests })
    // The second line runs when its server is killed.
    await waitUntil(() => provider.lines.length === 2)
    expect(new Set(provider.lines.map(({ by }) => by))).toEqual(new Set(['b']))
    await b.kill()
    provider.answerAll()
    // What is not heard of for twenty seconds, as the database sees it.
    await postgres.run('update gateway.jobs set until = clock_timestamp()')
    await waitUntil(async () => (await ask(a, key, `/batches/${batch.id}`)).status === 'completed')
    const { output_file_id, request_counts } = await ask(a, key, `/batches/${batch.id}`)
    expect(request_counts).toEqual({ total: 4, completed: 4, failed: 0 } as never)
    const results = await a.fetch(`/files/${output_file_id}/content`, { key })
    const lines = (await results.text()).trim().split('\n')
    expect(lines.map(line => JSON.parse(line).custom_id)).toEqual(['one', 'two', 'three', 'four'])
    expect(provider.lines.map(({ what, by }) => `${what} ${by}`)).toEqual([
      ...['one b', 'two b', 'two a', 'three a', 'four a'],
    ])
    await a.stop()
  })
} else test.skip('nodes: Postgres is not installed, and cannot be', () => undefined)

/** Starts a provider of chats and videos that notes whose key it is asked with. */
function startProvider() {
  const polls: string[] = []
  const lines: { what: string; by: string }[] = []
  const { promise: isFree, resolve: answerAll } = Promise.withResolvers<void>()
  let status = 'in_progress'
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const by = request.headers.get('authorization')?.replace('Bearer ', '') ?? ''
      if (request.method === 'GET') {
        polls.push(by)
        return Response.json({ id: 'v', status, seconds: '4' })
      }
      if (!request.url.endsWith('/chat/completions'))
        return Response.json({ id: 'v', status: 'queued' })
      const { messages } = (await request.json()) as { messages: { content: string }[] }
      lines.push({ what: messages[0]?.content ?? '', by })
      if (lines.length === 2) await isFree
      return Response.json({
        id: 'x',
        choices: [{ message: { role: 'assistant', content: 'Yes' }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 5, completion_tokens: 5 },
      })
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}/v1`,
    lines,
    countPolls: (name: string) => polls.filter(by => by === name).length,
    /** Has every video be done. */
    end: () => {
      status = 'completed'
    },
    answerAll,
    stop: () => server.stop(true),
  }
}
