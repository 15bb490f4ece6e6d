import { describe, expect, test } from 'bun:test'
import { waitUntil } from '../../support/chat.ts'
import { type Node, openNodes } from '../../support/nodes.ts'
import { hasPostgres } from '../../support/postgres.ts'
import { buildLocalConfig } from '../../support/server.ts'
import { completion, startUpstream } from '../../support/upstream.ts'

if (await hasPostgres())
  test('servers over one database: what a killed one leaves, and what a command changes', async () => {
    await using upstream = await startUpstream()
    await using nodes = await openNodes(buildLocalConfig(upstream.url))
    const [a, b, c] = [await nodes.start(), await nodes.start(), await nodes.start()]
    const made = await a.fetch('/keys', { key: nodes.management_key, json: { name: 'one' } })
    const { key, data } = (await made.json()) as { key: string; data: { hash: string } }

    upstream.plan([{ wait: 'never' }], completion('Hello'))
    const json = { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }] }
    const call = async (node: Node) => {
      const headers = { 'idempotency-key': 'one' }
      return (await node.fetch('/chat/completions', { key, json, headers })).text()
    }
    const first = call(a).catch(() => 'cut')
    await upstream.hit()
    expect(await call(b)).toContain('still runs')
    await a.end('SIGKILL')
    expect(await first).toBe('cut')
    const list = async () =>
      JSON.parse((await nodes.run(['nodes', 'list', '--json'])).stdout).data as {
        id: string
        state: string
        config_hash: string
      }[]
    await waitUntil(async () => (await list()).some(({ state }) => state === 'silent'))
    const gone = (await list()).find(({ state }) => state === 'silent')
    expect((await nodes.run(['nodes', 'forget', gone?.id ?? '', '--ended'])).code).toBe(0)
    for (const node of [b, c])
      expect(await call(node)).toMatch(/was interrupted: look at generation gen-/)
    expect(upstream.hits).toHaveLength(1)
    expect((await nodes.run(['audit', 'list'])).stdout).toContain('nodes.forget')
    expect(new Set((await list()).map(({ config_hash }) => config_hash)).size).toBe(1)

    const isRefused = async (node: Node) => (await node.fetch('/key', { key })).status === 401
    for (const node of [b, c]) expect(await isRefused(node)).toBe(false)
    expect((await nodes.run(['keys', 'update', data.hash, '--disable'])).code).toBe(0)
    for (const node of [b, c]) await waitUntil(() => isRefused(node))
    for (const node of [b, c]) {
      await node.end('SIGTERM')
      expect(node.process.exitCode).toBe(0)
    }
  })
else
  describe('servers over one database', () => {
    test.skip('Postgres is not installed, and cannot be', () => undefined)
  })
