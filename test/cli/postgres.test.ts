import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hasPostgres, startPostgres } from '../support/postgres.ts'
import { runGateway, type Server, startServer } from '../support/server.ts'

if (await hasPostgres()) {
  const postgres = await startPostgres()
  const root = mkdtempSync(join(tmpdir(), 'gateway-postgres-cli-'))
  afterAll(async () => {
    await postgres[Symbol.asyncDispose]()
    rmSync(root, { recursive: true, force: true })
  })

  const dollar = { prompt: 1, completion: 1 }
  const models = [
    {
      id: 'acme/small',
      endpoints: [{ provider: 'sandbox', model: 'echo', usd_per_million_tokens: dollar }],
    },
  ]
  const config = { models, storage: { postgres: { url: '$'.concat('{GATEWAY_POSTGRES_URL}') } } }
  const env = { GATEWAY_POSTGRES_URL: postgres.url }

  const call = async (server: Server, key: string): Promise<number> => {
    const messages = [{ role: 'user', content: 'Hello' }]
    const answer = await server.fetch('/chat/completions', {
      key,
      json: { model: 'acme/small', messages },
    })
    await answer.text()
    return answer.status
  }
  const count = async (table: string) =>
    (
      (await postgres.run(`select count(*)::int as rows from gateway.${table}`)) as {
        rows: number
      }[]
    )[0]?.rows

  test('a store moves to Postgres, and a server that is killed while that is away loses no answered call', async () => {
    const data = mkdtempSync(join(root, 'data-'))
    const before = await startServer({ data, config: { models } })
    const key = before.inference_key
    expect(await call(before, key)).toBe(200)
    await before.stop()
    const copied = await runGateway(['store', 'copy', data, 'postgres:'], { env })
    expect(copied).toMatchObject({ code: 0, stderr: '' })
    const server = await startServer({ data, config, env })
    expect(await call(server, key)).toBe(200)
    await postgres.stop()
    expect(await Promise.all(Array.from({ length: 5 }, () => call(server, key)))).toEqual(
      Array.from({ length: 5 }, () => 200),
    )
    const ready = await fetch(`${server.url}/ready`)
    expect([ready.status, await ready.json()]).toEqual([
      200,
      { status: 'ready', degraded: 'store' },
    ])
    // Nobody can be known who was not before.
    expect((await server.fetch('/key', { key: 'gw-v1-unknown' })).status).toBe(503)
    await server.kill()
    await postgres.start()
    const next = await startServer({ data, config, env })
    expect(await count('generations')).toBe(7)
    expect(await count('ledger')).toBe(7)
    expect(await call(next, key)).toBe(200)
    const { stdout } = await runGateway(['doctor', '--data', data], { env })
    expect(stdout).not.toContain('WRONG')
    const { stdout: nodes } = await runGateway(['nodes', 'list', '--data', data, '--json'], { env })
    const [node] = JSON.parse(nodes).data
    expect(node.state).toBe('serving')
    expect(await runGateway(['nodes', 'forget', node.id, '--data', data], { env })).toMatchObject({
      code: 4,
      stderr: expect.stringContaining(`serves: gateway nodes drain ${node.id} stops it`),
    })
    await next.stop()
  })
} else test.skip('a server on Postgres: Postgres is not installed, and cannot be', () => undefined)
