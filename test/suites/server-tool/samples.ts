import { expect } from 'bun:test'
import { startMcpServer, textResult } from '../../support/mcp-server.ts'
import { answerAsPeer, SEARCH_PEERS } from '../../support/search-peers.ts'
import { body, startUpstream } from '../../support/upstream.ts'
import type { ServerToolSample } from '../server-tool.ts'

const openSandbox = async () => ({
  config: { sandbox: { kind: 'just-bash' } },
  close: async () => undefined,
})

/** A sample of every tool, by its name. */
export const SAMPLES: Record<string, ServerToolSample> = {
  apply_patch: {
    parameters: { engine: 'auto' },
    options: { isNative: false },
    doors: ['responses'],
    isOfClient: true,
    name: 'apply_patch',
    input: { type: 'delete_file', path: 'a.txt' },
    output: '',
    item: {},
    wrongInput: {},
  },
  datetime: {
    parameters: { timezone: 'Europe/Berlin' },
    options: { timezone: 'Europe/Berlin' },
    name: 'datetime',
    input: { timezone: 'Asia/Tokyo' },
    output: '2026-03-04T14:06:07+09:00',
    item: { datetime: '2026-03-04T14:06:07+09:00', timezone: 'Asia/Tokyo' },
    wrongInput: { timezone: 'Mars/Olympus' },
  },
  web_search: {
    parameters: {
      ...{ engine: 'searxng', max_results: 2, max_characters: 100, max_total_results: 10 },
      ...{ max_uses: 3, search_context_size: 'low', allowed_domains: ['example.com'] },
      user_location: { type: 'approximate', country: 'DE' },
    },
    options: {
      x_search: null,
      ...{ engine: 'searxng', max_results: 2, max_characters: 100, max_total_results: 10 },
      ...{ max_uses: 3, search_context_size: 'low', mode: null },
      domains: { allowed: ['example.com'], excluded: [] },
      user_location: { city: null, region: null, country: 'DE', timezone: null },
    },
    name: 'web_search',
    input: { query: 'good news' },
    output: 'https://example.com/news',
    item: {
      action: {
        type: 'search',
        query: 'good news',
        sources: [{ type: 'url', url: 'https://example.com/news' }],
      },
    },
    wrongInput: { query: '' },
    async open() {
      const upstream = await startUpstream()
      const page = { url: 'https://example.com/news', title: 'News', text: 'All is well' }
      upstream.answer(hit => answerAsPeer(SEARCH_PEERS.searxng, hit, [page]))
      const config = { web_search: { engines: { searxng: { base_url: upstream.url } } } }
      return { config, close: () => upstream.close() }
    },
  },
  web_fetch: {
    parameters: {
      engine: 'openrouter',
      ...{ allowed_domains: ['127.0.0.1'], max_content_tokens: 100, max_uses: 3 },
    },
    options: {
      ...{ engine: 'openrouter', max_content_tokens: 100, max_uses: 3 },
      domains: { allowed: ['127.0.0.1'], excluded: [] },
    },
    name: 'web_fetch',
    input: {},
    output: '# Hello',
    item: { httpStatus: 200, content: '# Hello', title: 'Page' },
    wrongInput: { url: 'http://10.0.0.1/' },
    async open() {
      const upstream = await startUpstream()
      upstream.answer(({ path }) =>
        path === '/robots.txt'
          ? body('text/plain', '', { status: 404 })
          : body('text/html', '<title>Page</title><h1>Hello</h1>'),
      )
      const { host, origin } = new URL(upstream.url)
      return {
        config: { security: { allow_private_urls: [host] } },
        input: { url: `${origin}/page` },
        close: () => upstream.close(),
      }
    },
  },
  mcp: {
    needed: { server_label: 'own' },
    parameters: {
      ...{ server_label: 'own', server_description: 'A test', allowed_tools: ['add'] },
      require_approval: 'never',
    },
    options: {
      ...{ server_label: 'own', server_url: null, server_description: 'A test', headers: {} },
      allowed: { names: ['add'], isReadOnly: false },
      approval: { always: [], never: [], others: 'never' },
      ...{ isPlain: false, connector_id: null },
      given: {
        ...{ server_label: 'own', server_description: 'A test', allowed_tools: ['add'] },
        require_approval: 'never',
      },
      path: 'tools.0.parameters',
    },
    name: 'own__add',
    input: { a: 20, b: 22 },
    output: '42',
    item: { serverLabel: 'own', toolName: 'add' },
    wrongInput: { a: 'hologram' },
    async open() {
      const run = ({ a, b }: Record<string, unknown>) =>
        Number.isNaN(Number(a) + Number(b))
          ? textResult('Expected two numbers', true)
          : textResult(String(Number(a) + Number(b)))
      const server = startMcpServer({ tools: [{ name: 'add', run }] })
      return { config: { mcp_servers: { own: { url: server.url } } }, close: server.close }
    },
  },
  search_models: {
    parameters: { max_results: 3 },
    options: { max_results: 3 },
    name: 'search_models',
    input: { query: 'gemini' },
    output: 'acme/gemini',
    item: { query: 'gemini' },
    wrongInput: { query: 7 },
  },
  tool_search: {
    parameters: { max_results: 3 },
    options: { max_results: 3 },
    functions: [
      { name: 'get_weather', description: 'Tells the weather of a city', defer_loading: true },
      { name: 'get_time', description: 'Tells the time', defer_loading: true },
    ],
    name: 'tool_search',
    input: { query: 'weather' },
    output: 'get_weather',
    item: { query: 'weather' },
    wrongInput: {},
  },
  advisor: {
    parameters: {
      ...{ name: 'Old hand', model: 'acme/gemini', instructions: 'Be brief.' },
      ...{ max_completion_tokens: 50, temperature: 0.5, reasoning: { effort: 'low' } },
      ...{ forward_transcript: false, stream: false },
    },
    options: {
      ...{ name: 'Old hand', model: 'acme/gemini', instructions: 'Be brief.' },
      params: { max_tokens: 50, temperature: 0.5, reasoning: { effort: 'low' } },
      ...{ forward_transcript: false, stream: false, path: 'tools.0.parameters' },
    },
    name: 'advisor',
    input: { prompt: 'What now?' },
    output: 'Sleep on it.',
    item: { prompt: 'What now?', model: 'acme/gemini', advice: 'Sleep on it.' },
    wrongInput: { prompt: '' },
    failedStatus: 'failed',
    inner: { line: 'user: What now?', answer: 'Sleep on it.' },
  },
  subagent: {
    parameters: {
      ...{ name: 'Clerk', model: 'acme/gemini', instructions: 'Be brief.' },
      ...{ max_completion_tokens: 50, temperature: 0.5, reasoning: { max_tokens: 20 } },
      ...{ max_tool_calls: 3, tools: [{ type: 'gateway:datetime' }] },
      ...{ inherit_functions: false, inherited_function_names: [] },
    },
    options: {
      ...{ name: 'Clerk', model: 'acme/gemini', instructions: 'Be brief.' },
      params: { max_tokens: 50, temperature: 0.5, reasoning: { max_tokens: 20 } },
      ...{ max_tool_calls: 3, path: 'tools.0.parameters' },
      tools: [
        {
          ...{ name: 'datetime', identity: 'datetime', type: 'gateway:datetime', options: null },
          field: 'tools.0.parameters.tools.0.type',
        },
      ],
    },
    name: 'subagent',
    input: { task_name: 'count', task_description: 'Count them.' },
    output: 'Seven.',
    item: {
      ...{ name: 'Clerk', model: 'acme/gemini', outcome: 'Seven.' },
      ...{ task_name: 'count', task_description: 'Count them.' },
    },
    wrongInput: { task_name: 'count' },
    failedStatus: 'failed',
    inner: { line: 'user: Count them.', answer: 'Seven.' },
  },
  shell: {
    parameters: {
      engine: 'openrouter',
      environment: {
        ...{ type: 'container_reference', container_id: 'suite', file_ids: [] },
        network_policy: { type: 'disabled' },
      },
    },
    options: {
      ...{ container_id: 'suite', replayed: null, file_ids: [], hosts: [] },
      ...{ isPlain: false, path: 'tools.0.parameters' },
    },
    doors: ['responses', 'messages'],
    name: 'shell',
    input: { commands: ['echo $((6 * 7))'] },
    output: '"stdout":"42\\n"',
    item: {
      action: { commands: ['echo $((6 * 7))'], timeout_ms: null, max_output_length: null },
      output: [{ stdout: '42\n', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
      container_id: 'suite',
    },
    wrongInput: { command: 7, commands: ['true', ''] },
    failedStatus: 'failed',
    needed: { engine: 'openrouter' },
    open: openSandbox,
  },
  bash: {
    parameters: {
      engine: 'openrouter',
      environment: {
        ...{ type: 'container_reference', container_id: 'suite', file_ids: [] },
        network_policy: { type: 'disabled' },
      },
    },
    options: {
      ...{ container_id: 'suite', replayed: null, file_ids: [], hosts: [] },
      ...{ isOfClient: false, path: 'tools.0.parameters' },
    },
    name: 'bash',
    input: { command: 'echo $((6 * 7))' },
    output: '"stdout":"42\\n"',
    item: {
      ...{ command: 'echo $((6 * 7))', stdout: '42\n', stderr: '', exitCode: 0 },
      container_id: 'suite',
    },
    wrongInput: { command: 7, commands: ['true', ''] },
    failedStatus: 'failed',
    needed: { engine: 'openrouter' },
    open: openSandbox,
  },
  fusion: {
    parameters: {
      ...{ analysis_models: ['acme/gemini'], model: 'acme/gemini', max_tool_calls: 2 },
      ...{ max_completion_tokens: 50, temperature: 0.5, reasoning: { effort: 'low' } },
      tools: [{ type: 'gateway:datetime' }],
      cache_control: { type: 'ephemeral', ttl: '5m' },
    },
    options: {
      ...{ analysis_models: ['acme/gemini'], model: 'acme/gemini', max_tool_calls: 2 },
      params: { max_tokens: 50, temperature: 0.5, reasoning: { effort: 'low' } },
      ...{ cache_control: { type: 'ephemeral', ttl: '5m' }, path: 'tools.0.parameters' },
      tools: [
        {
          ...{ name: 'datetime', identity: 'datetime', type: 'gateway:datetime', options: null },
          field: 'tools.0.parameters.tools.0.type',
        },
      ],
    },
    name: 'fusion',
    input: { prompt: 'Which apple?' },
    output: '"consensus":["Boskoop"]',
    item: {
      analysis: {
        ...{ consensus: ['Boskoop'], contradictions: [], partial_coverage: [] },
        ...{ unique_insights: [], blind_spots: [] },
      },
      responses: [{ model: 'acme/gemini', content: '{"consensus":["Boskoop"]}' }],
    },
    wrongInput: { prompt: ' ' },
    inner: { line: 'user: Which apple?', answer: '{"consensus":["Boskoop"]}', turns: 2 },
  },
  image_generation: {
    needed: { model: 'sandbox/image' },
    parameters: { model: 'sandbox/image', n: 2, output_format: 'png', size: '64x64' },
    options: {
      ...{ model: 'sandbox/image', path: 'tools.0.parameters', native: null },
      params: { n: 2, output_format: 'png', size: { width: 64, height: 64 } },
    },
    name: 'image_generation',
    input: { prompt: 'A red apple' },
    output: '"pictures":2',
    item: { prompt: 'A red apple' },
    wrongInput: { prompt: '' },
    pictures: 2,
  },
  files: {
    parameters: {},
    options: null,
    name: 'files',
    input: { operation: 'write', filename: 'notes.txt', content: 'Hello' },
    output: '"filename":"notes.txt"',
    item: {
      operation: 'write',
      filename: 'notes.txt',
      file_id: expect.stringMatching(/^or_file_/),
    },
    wrongInput: { operation: 'delete' },
    changes: ['file_id', 'result'],
  },
}
