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

  test('config show masks the credentials of tools', async () => {
    const { stdout } = await runCommand(['config', 'show'], { cwd })
    expect(stdout).toContain('mcp_servers.docs.authorization')
    expect(stdout).not.toContain(KEY)
  })
})
