import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import { startMcpServer, type TestMcpServer, textResult } from '../support/mcp-server.ts'
import { LONG } from '../support/random.ts'
import { buildLocalConfig } from '../support/server.ts'
import {
  ADVICE,
  type Charges,
  callingAll,
  KilledGateway,
  TURN,
  WAITING,
} from '../support/server-tools/killing.ts'
import { PRICE } from '../support/server-tools/price.ts'
import { type Hit, json, type Script, startUpstream, type Upstream } from '../support/upstream.ts'

/*
 * Gateways that are killed in and after uses of every kind of tool: those that ask other models, that
 * draw, that call servers, that store files and that run commands.
 */

/** What a picture costs, in nano-dollars. */
const PICTURE = 9_000n
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='

let upstream: Upstream
let remote: TestMcpServer
/** Resolves when the MCP server is called. */
let called: PromiseWithResolvers<void>
/** Whether calls of the MCP server never end. */
let isSilent = false
beforeAll(async () => {
  upstream = await startUpstream()
  remote = startMcpServer({
    isJson: true,
    tools: [
      {
        name: 'do',
        run() {
          called.resolve()
          return isSilent ? new Promise(() => undefined) : textResult('ok')
        },
      },
    ],
  })
})
beforeEach(() => {
  upstream.hits.length = 0
  called = Promise.withResolvers<void>()
  isSilent = false
})
afterAll(() => Promise.all([upstream.close(), remote.close()]))

function buildConfig(): Json {
  const config = buildLocalConfig(upstream.url)
  const prices = { prompt: 0, completion: 0, per_image: Number(PICTURE) / 1e9 }
  const painter = {
    id: 'acme/painter',
    output_modalities: ['image'],
    endpoints: [{ provider: 'local', model: 'draw-1', usd_per_million_tokens: prices }],
  }
  return {
    ...config,
    models: [
      ...config.models,
      ...config.models.map(one => ({ ...one, id: 'acme/other' })),
      painter,
    ],
    sandbox: { kind: 'just-bash' },
    mcp_servers: { remote: { url: remote.url, usd_per_call: Number(PRICE) / 1e9 } },
  }
}

const ASK = { model: 'acme/small', max_completion_tokens: 50 }
const TOOLS: Json[] = [
  { type: 'gateway:priced' },
  { type: 'gateway:files' },
  { type: 'gateway:image_generation', parameters: { model: 'acme/painter' } },
  { type: 'gateway:bash', parameters: { engine: 'openrouter' } },
  { type: 'gateway:shell' },
  { type: 'gateway:mcp', parameters: { server_label: 'remote', require_approval: 'never' } },
  { type: 'gateway:subagent', parameters: { ...ASK, tools: [{ type: 'gateway:priced' }] } },
  {
    type: 'gateway:fusion',
    parameters: { ...ASK, analysis_models: ['acme/small', 'acme/other'], tools: [] },
  },
]

/** What the model calls of each tool. */
const USES = {
  files: ['files', { operation: 'write', filename: 'a.txt', content: 'One' }],
  image: ['image_generation', { prompt: 'An apple' }],
  bash: ['bash', { command: 'write out/a.txt one' }],
  shell: ['shell', { commands: ['write out/a.txt one'] }],
  mcp: ['remote__do', {}],
  subagent: ['subagent', { task_description: 'Sub: do it' }],
  fusion: ['fusion', { prompt: 'Panel: which?' }],
} as const
type Use = keyof typeof USES
const HANGING: Partial<Record<Use, Json>> = {
  bash: { command: 'hang' },
  shell: { commands: ['hang'] },
}

/** What of it never ends. */
type Silence = 'panel' | 'judge' | 'subagent' | 'picture' | 'mcp'

const isAbout = ({ json: body }: Hit, text: string) => JSON.stringify(body).includes(text)

const answerAll = (uses: Use[], silent: Silence[], isHanging: boolean) => (hit: Hit) => {
  const wait = (name: Silence, script: Script) => (silent.includes(name) ? WAITING : script)
  if (hit.path.endsWith('/images/generations'))
    return wait('picture', json({ created: 1, data: [{ b64_json: PNG }] }))
  if (isAbout(hit, 'You compare what')) return wait('judge', ADVICE)
  if (isAbout(hit, 'user","content":"Panel:')) return wait('panel', ADVICE)
  if (isAbout(hit, 'user","content":"Sub:')) return wait('subagent', ADVICE)
  return callingAll(
    ...uses.map(use => {
      const [name, input] = USES[use]
      const given = (isHanging ? HANGING[use] : undefined) ?? input
      return { name, arguments: JSON.stringify(given) }
    }),
  )
}

interface Case {
  /** Where it is killed; see `serve.ts`. */
  at?: string
  uses: Use[]
  silent?: Silence[]
  isHanging?: boolean
  /** The requests to the provider after which it is killed. */
  hits?: number
  charges: Charges | bigint[]
}

const ALL: Use[] = ['files', 'image', 'bash', 'shell', 'mcp', 'subagent', 'fusion']
const begun = expect.anything()

const CASES: [string, Case][] = [
  [
    'in uses of all of them',
    {
      ...{ uses: ALL, silent: ['panel', 'subagent', 'picture', 'mcp'], hits: 5 },
      charges: [[1, TURN], [2, PRICE], ...[3, 4, 5, 6].map(n => [n, begun])] as Charges,
    },
  ],
  [
    'after uses of all of them',
    {
      ...{ uses: ALL, at: 'before step 8' },
      charges: [TURN, PRICE, TURN, TURN, TURN, TURN, PICTURE],
    },
  ],
]

/** One tool at a time, at every boundary. */
const LONG_CASES: [string, Case][] = [
  [
    'in a picture',
    {
      ...{ uses: ['image'], silent: ['picture'], hits: 2 },
      charges: [
        [1, TURN],
        [2, begun],
      ],
    },
  ],
  ['after a picture', { uses: ['image'], at: 'before step 3', charges: [TURN, PICTURE] }],
  [
    'in the panel of a fusion',
    {
      ...{ uses: ['fusion'], silent: ['panel'], hits: 3 },
      charges: [
        [1, TURN],
        [2, begun],
        [3, begun],
      ],
    },
  ],
  [
    'in the judge of a fusion',
    {
      ...{ uses: ['fusion'], silent: ['judge'], hits: 4 },
      charges: [
        [1, TURN],
        [2, TURN],
        [3, TURN],
        [4, begun],
      ],
    },
  ],
  ['before the judge', { uses: ['fusion'], at: 'before step 4', charges: [TURN, TURN, TURN] }],
  ['after a fusion', { uses: ['fusion'], at: 'before step 5', charges: [TURN, TURN, TURN, TURN] }],
  [
    'in a turn of a subagent',
    {
      ...{ uses: ['subagent'], silent: ['subagent'], hits: 2 },
      charges: [
        [1, TURN],
        [2, begun],
      ],
    },
  ],
  ['before a subagent', { uses: ['subagent'], at: 'before step 2', charges: [TURN] }],
  ['after a subagent', { uses: ['subagent'], at: 'before step 3', charges: [TURN, TURN] }],
  ['before a call of a server', { uses: ['mcp'], at: 'before step 2', charges: [TURN] }],
  ['in a call of a server', { uses: ['mcp'], silent: ['mcp'], charges: [TURN, PRICE] }],
  ['after a call of a server', { uses: ['mcp'], at: 'before step 3', charges: [TURN, PRICE] }],
  ['in a file', { uses: ['files'], at: 'in a file', charges: [TURN] }],
  ['after a file', { uses: ['files'], at: 'before step 2', charges: [TURN] }],
  ['in a command of bash', { uses: ['bash'], isHanging: true, charges: [TURN] }],
  ['after a command of bash', { uses: ['bash'], at: 'before step 2', charges: [TURN] }],
  ['in a command of a shell', { uses: ['shell'], isHanging: true, charges: [TURN] }],
  ['after a command of a shell', { uses: ['shell'], at: 'before step 2', charges: [TURN] }],
]

describe.each(LONG ? [...CASES, ...LONG_CASES] : CASES)(
  'a gateway that is killed %s',
  (_, asked) => {
    test('has charged each step once, however often it restarts', async () => {
      const { at = '', uses, silent = [], isHanging = false, hits, charges } = asked
      const killed = await KilledGateway.create(buildConfig())
      upstream.answer(answerAll(uses, silent, isHanging))
      isSilent = silent.includes('mcp')
      const waits = [
        ...(hits === undefined ? [] : [() => upstream.hit(hits)]),
        ...(isSilent ? [() => called.promise] : []),
      ]
      await killed.killAt({
        at,
        path: '/responses',
        body: { input: 'Hi', max_output_tokens: 100, tools: TOOLS },
        ...(waits.length > 0 ? { reached: () => Promise.all(waits.map(wait => wait())) } : {}),
      })
      await killed.expectCharges(1, charges)
      killed.remove()
    })
  },
)
