import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AGENTS, DEFAULT_MODEL } from '../../src/cli/commands/agent.ts'
import { runCommand } from '../support/commands.ts'
import { listBlocks, readDocuments } from '../support/documents.ts'
import { startServer } from '../support/server.ts'

const page = (await readDocuments()).find(({ path }) => path === 'docs/agents.md')
if (!page) throw new Error('expected docs/agents.md')
const blocks = listBlocks(page).map(({ code }) => code)

let cwd: string
beforeAll(() => {
  cwd = mkdtempSync(join(tmpdir(), 'gateway-test-'))
})
afterAll(() => rmSync(cwd, { recursive: true, force: true }))

describe.each(Object.entries(AGENTS))('agent %s', (name, agent) => {
  test('prints what docs/agents.md has (bun run docs)', async () => {
    const { code, stdout, stderr } = await runCommand(['agent', name], { cwd })
    expect([code, stderr]).toEqual([0, ''])
    expect(blocks).toContain(stdout)
    expect(stdout).toContain('GATEWAY_KEY')
  })

  test('was tried, in the version that is named (bun run agents)', () => {
    const rows = page.text.split('\n').filter(line => line.startsWith(`| ${agent.title} |`))
    const tried = rows.map(row => row.split(' | ').slice(1, 4).join(' ').split(',')[0])
    const over = ['openai-chat', 'anthropic-messages', 'gemini', 'openai']
    expect(tried).toEqual(over.map(provider => `${agent.version} ${provider} done`))
  })

  test('names this model, at the address of the config', async () => {
    writeFileSync(join(cwd, 'site.yaml'), 'server: { site_url: "https://ai.example/" }')
    const line = ['agent', name, '--model', 'acme/m:free', '--config', 'site.yaml']
    const { stdout } = await runCommand(line, { cwd })
    expect(stdout).toContain('acme/m:free')
    expect(stdout).toMatch(/https:\/\/ai\.example(\/api\b|')/)
    expect(stdout).not.toContain(DEFAULT_MODEL)
  })
})

test.each([
  ['openai/gpt-6-luna', 'default_model: sandbox/echo'],
  ['openai/gpt-6-luna', '{}'],
  ['openai/gpt-6-luna', 'providers: { openai: { api_key: "$' + '{AGENT_TEST_NO_KEY}" } }'],
  ['anthropic/claude-sonnet-5', 'default_model: anthropic/claude-sonnet-5'],
])('without --model it is %s over %p', async (model, config) => {
  writeFileSync(join(cwd, 'models.yaml'), config)
  const { stdout } = await runCommand(['agent', 'pi', '--config', 'models.yaml'], { cwd })
  expect(stdout).toContain(`--model '${model}'`)
})

test('the address is that of the server that runs', async () => {
  await using server = await startServer()
  const { stdout } = await runCommand(['agent', 'claude', '--data', server.data], { cwd })
  expect(stdout).toContain(`ANTHROPIC_BASE_URL='${server.url}/api'`)
  expect(stdout).not.toContain(server.inference_key)
})

test.each([
  [['agent', 'aider'], 'Allowed choices are codex, claude'],
  [['agent', 'codex', '--model', "a'; id; '"], '--model: expected letters'],
  [['agent', 'codex', '--model', ''], '--model: expected letters'],
])('%p is refused', async (line, message) => {
  const { code, stdout, stderr } = await runCommand(line, { cwd })
  expect([code === 0, stdout, stderr]).toEqual([false, '', expect.stringContaining(message)])
})
