import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../support/commands.ts'

const KEY = 'sk-very-secret-key'
let cwd: string
beforeAll(() => {
  cwd = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  const engines = { exa: { api_key: KEY }, searxng: {} }
  const mcp_servers = { docs: { url: 'https://docs.example/mcp', authorization: KEY } }
  writeFileSync(join(cwd, 'gateway.yaml'), JSON.stringify({ web_search: { engines }, mcp_servers }))
})
afterAll(() => rmSync(cwd, { recursive: true, force: true }))

describe('tools list', () => {
  test('shows what works and why the rest does not, without a data directory', async () => {
    const { code, stdout, stderr } = await runCommand(['tools', 'list'], { cwd })
    const rows = stdout.trimEnd().split('\n')
    expect([code, stderr, stdout.includes(KEY)]).toEqual([0, '', false])
    expect(rows[0]).toMatch(/^TOOL +STATE +WHY$/)
    expect(rows).toContainEqual(expect.stringMatching(/^web_search\/exa +works +-$/))
    expect(rows).toContainEqual(
      expect.stringMatching(
        /^web_search\/searxng +- +it has no address \(web_search\.engines\.sea/,
      ),
    )
    expect(rows).toContainEqual(expect.stringMatching(/^mcp\/docs +works +-$/))
  })

  test('prints the same as JSON', async () => {
    const { stdout } = await runCommand(['tools', 'list', '--json'], { cwd })
    const { data } = JSON.parse(stdout) as { data: Record<string, unknown>[] }
    expect(data).toContainEqual({ tool: 'web_search/exa', works: true, reason: null })
    expect(stdout).not.toContain(KEY)
  })

  test('says with which models a search works that no engine makes', async () => {
    const readState = async (config: object) => {
      const file = join(cwd, 'other.yaml')
      writeFileSync(file, JSON.stringify(config))
      const args = ['tools', 'list', '--json', '--config', file]
      const { data } = JSON.parse((await runCommand(args, { cwd })).stdout)
      return data.find(({ tool }: { tool: string }) => tool === 'web_search')
    }
    const because = 'and no engine is configured (web_search.engines)'
    expect(await readState({})).toEqual({
      ...{ tool: 'web_search', works: false },
      reason: `no provider here searches, ${because}`,
    })
    expect(await readState({ providers: { openai: { api_key: KEY } } })).toEqual({
      ...{ tool: 'web_search', works: true },
      reason: `only with models whose provider searches, ${because}`,
    })
    expect(await readState({ web_search: { engines: { exa: { api_key: KEY } } } })).toEqual({
      ...{ tool: 'web_search', works: true, reason: null },
    })
    expect(await readState({ web_search: { enabled: false } })).toMatchObject({ works: false })
  })

  test('config show masks the credentials of tools', async () => {
    const { stdout } = await runCommand(['config', 'show'], { cwd })
    expect(stdout).toContain('mcp_servers.docs.authorization')
    expect(stdout).not.toContain(KEY)
  })
})
