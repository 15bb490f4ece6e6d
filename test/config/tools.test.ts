import { describe, expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import { parseConfig } from '../../src/config.ts'

const parse = (config: Json, withoutSecrets = false) =>
  parseConfig(JSON.stringify(config), {}, { withoutSecrets })

const buildVariable = (name: string) => `\${${name}}`

describe('the settings of tools', () => {
  test('are complete without a config', () => {
    const { web_search, web_fetch, mcp, mcp_servers } = parse({})
    expect(web_search).toEqual({ enabled: true, engines: {}, max_uses: 20, timeout_seconds: 30 })
    expect(web_fetch).toMatchObject({ enabled: true, robots: true, max_mib: 5 })
    expect(mcp).toMatchObject({ enabled: true, server_urls: true, list_seconds: 300 })
    expect(mcp_servers).toEqual({})
  })

  test('keep the order of the engines, which auto follows', () => {
    const { web_search } = parse({ web_search: { engines: { tavily: {}, brave: {}, exa: {} } } })
    expect(Object.keys(web_search.engines)).toEqual(['tavily', 'brave', 'exa'])
  })

  const server = { url: 'https://mcp.example' }
  const oauth = { token_url: 'https://auth.example', client_id: 'a', client_secret: 'b' }
  test.each<[config: Json, path: string]>([
    [{ web_search: { engines: { google: {} } } }, 'web_search.engines'],
    [{ web_search: { engines: { exa: { key: 'x' } } } }, 'web_search.engines.exa'],
    [{ web_search: { engines: { exa: { api_key: 'a\nb' } } } }, 'web_search.engines.exa.api_key'],
    [{ web_search: { engines: { exa: { usd_per_search: -1 } } } }, 'usd_per_search'],
    [{ web_search: { engines: { exa: { usd_per_search: 11 } } } }, 'usd_per_search'],
    [{ web_search: { engines: { exa: { max_results: 26 } } } }, 'max_results'],
    [{ web_search: { engines: { searxng: { base_url: 'searxng' } } } }, 'base_url'],
    [{ web_search: { timeout_seconds: 0 } }, 'web_search.timeout_seconds'],
    [{ web_search: { max_uses: 1.5 } }, 'web_search.max_uses'],
    [{ server_tools: { disabled_tools: { own: ['hologram'] } } }, 'disabled_tools.own'],
    [{ server_tools: { disabled_tools: ['files'] } }, 'server_tools.disabled_tools'],
    [{ web_fetch: { max_mib: 1e9 } }, 'web_fetch.max_mib'],
    [{ web_fetch: { robots: 'sometimes' } }, 'web_fetch.robots'],
    [{ web_fetch: { engines: { brave: {} } } }, 'web_fetch.engines'],
    [{ web_fetch: { engines: { exa: { usd_per_fetch: -1 } } } }, 'usd_per_fetch'],
    [{ web_fetch: { engines: { exa: { usd_per_fetch: 11 } } } }, 'usd_per_fetch'],
    [{ web_fetch: { engines: { exa: { timeout_seconds: 0 } } } }, 'timeout_seconds'],
    [{ web_fetch: { engines: { exa: { base_url: 'exa' } } } }, 'base_url'],
    [{ web_fetch: { engines: { exa: { api_key: 'a\nb' } } } }, 'web_fetch.engines.exa.api_key'],
    [{ mcp: { max_tools: 0 } }, 'mcp.max_tools'],
    [{ mcp: { list_seconds: -1 } }, 'mcp.list_seconds'],
    [{ mcp_servers: { 'a b': server } }, 'mcp_servers'],
    [{ mcp_servers: { own: {} } }, 'mcp_servers.own.url'],
    [{ mcp_servers: { own: { url: 'https://user:pass@mcp.example' } } }, 'mcp_servers.own.url'],
    [{ mcp_servers: { own: { ...server, headers: { 'a b': 'c' } } } }, 'mcp_servers.own.headers'],
    [{ mcp_servers: { own: { ...server, headers: { a: 'b\r\nc: d' } } } }, 'headers.a'],
    [{ mcp_servers: { own: { ...server, require_approval: 'sometimes' } } }, 'require_approval'],
    [{ mcp_servers: { own: { ...server, command: ['x'] } } }, 'mcp_servers.own.url: expected none'],
    [{ mcp_servers: { own: { ...server, env: { A: 'b' } } } }, 'mcp_servers.own.env'],
    [{ mcp_servers: { own: { ...server, cwd: '/' } } }, 'mcp_servers.own.cwd'],
    [{ mcp_servers: { own: { ...server, oauth: {} } } }, 'mcp_servers.own.oauth.token_url'],
    [{ mcp_servers: { own: { ...server, authorization: 'x', oauth } } }, 'mcp_servers.own.oauth'],
    [{ mcp_servers: { own: { command: ['x'], oauth } } }, 'mcp_servers.own.oauth'],
    [{ mcp_servers: { own: { command: [] } } }, 'mcp_servers.own.command'],
    [{ mcp_servers: { own: { command: 'x' } } }, 'mcp_servers.own.command'],
    [{ mcp_servers: { own: { command: ['x'], env: { 'A B': 'c' } } } }, 'mcp_servers.own.env'],
    [{ mcp_servers: { own: { command: ['x'], headers: {} } } }, 'mcp_servers.own.headers'],
    [{ mcp_servers: { own: { command: ['x'], authorization: 'y' } } }, 'own.authorization'],
  ])('%j is refused with its path', (config, path) => {
    expect(() => parse(config)).toThrow(path)
  })

  test('need no secret where nothing is called', () => {
    const config = {
      web_search: {
        engines: { exa: { api_key: buildVariable('EXA_KEY'), usd_per_search: 0.005 }, searxng: {} },
      },
      web_fetch: { engines: { exa: { api_key: buildVariable('EXA_KEY'), enabled: true } } },
      mcp_servers: {
        own: {
          url: buildVariable('MCP_URL'),
          authorization: buildVariable('MCP_TOKEN'),
          allowed_tools: ['add'],
        },
        program: { command: ['x'], env: { TOKEN: buildVariable('MCP_TOKEN') } },
        lost: { command: [buildVariable('MCP_PROGRAM')], env: { A: 'b' } },
      },
    }
    expect(() => parse(config)).toThrow('EXA_KEY')
    const { web_search, web_fetch, mcp_servers } = parse(config, true)
    expect(web_fetch.engines).toEqual({ exa: { enabled: true } })
    expect(web_search.engines).toEqual({ exa: { usd_per_search: 0.005 }, searxng: {} })
    expect(mcp_servers).toEqual({
      own: { url: 'http://missing.invalid', allowed_tools: ['add'] },
      program: { command: ['x'] },
      lost: { url: 'http://missing.invalid' },
    })
  })
})
