import { Command, Option } from 'commander'
import type { Gateway } from '../../app/gateway.ts'
import { invalid } from '../../base/errors.ts'
import type { ExplainedDrop, ExplainedEndpoint } from '../../extensions/explain/explanation.ts'
import type { Explanation } from '../../extensions/explain.ts'
import { REGIONS, type Region } from '../../language/call.ts'
import { DIALECTS, type DialectName } from '../../language/dialect.ts'
import type { Actor } from '../../resources/actor.ts'
import type { CallContext, DialectBody } from '../../translation/dialects/dialect.ts'
import { BODY_SOURCES, isBody } from '../input.ts'
import { findId, KEYS } from '../names.ts'
import {
  addCommonOptions,
  type CommonOptions,
  createDialectOption,
  findWorkspaceId,
} from '../options.ts'
import { formatDollars, print, printFields, printResult, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

interface ExplainOptions extends CommonOptions {
  key?: string
  workspace?: string
  dialect: DialectName
  region: Region
  session?: string
}

/** `gateway explain`: what would happen to a call, and why, without making it. */
export const createExplainCommand = () =>
  addCommonOptions(
    new Command('explain').description('explain what would happen to a call, without making it'),
  )
    .argument('<request>', `the body of the request: ${BODY_SOURCES}`)
    .option('--key <key>', 'call with this key, by hash, name or label')
    .option('--workspace <id>', 'call from this workspace, by id or slug (default)')
    .addOption(createDialectOption(DIALECTS))
    .addOption(
      new Option('--region <region>', 'the ingress region of the call')
        .choices(REGIONS)
        .default('global'),
    )
    .option('--session <id>', 'the session of the call')
    .addHelpText('after', HELP)
    .action(explain)

const HELP = `
A running server knows more: cooldowns, latencies and sessions. It explains a request with
"debug": {"dry_run": true, "key": "<hash>"} to management keys.`

async function explain(file: string, options: ExplainOptions): Promise<void> {
  if (options.key !== undefined && options.workspace !== undefined)
    throw invalid('--workspace: expected none beside --key, which has its own')
  const { explain: explainCall } = await import('../../extensions/explain.ts')
  const { findDialect } = await import('../../translation/dialects/registry.ts')
  const { parseBody } = await import('../../base/body.ts')
  const dialect = findDialect(options.dialect)
  const body = parseBody(
    dialect.body,
    isBody(file) ? Buffer.from(file) : await readBytes(file),
  ) as DialectBody
  if (Object.keys(body).length === 0)
    throw invalid('request: expected the body of a call, found an empty object')
  const context = buildContext(options)
  const task = async (gateway: Gateway, asker: Actor) => {
    const key = options.key && (await findId(KEYS, gateway, asker, options.key))
    const as = { key, workspace_id: await findWorkspaceId(gateway, options.workspace) }
    const understand = (actor: Actor) => dialect.toCall(gateway, actor, body, context)
    await printResult(
      options,
      await explainCall(gateway, asker, as, dialect.kind, understand),
      printExplanation,
    )
  }
  await withGateway(options, task, { data: false })
}

const buildContext = ({ region, session }: ExplainOptions): CallContext => ({
  origin: {
    request_id: '',
    http_referer: null,
    title: null,
    user_agent: null,
    region,
    traceContext: null,
  },
  id: '',
  session_id: session ?? null,
  betas: [],
})

/** Reads the file up to the largest size of a body: some files never end. */
async function readBytes(file: string): Promise<Uint8Array> {
  const { LARGEST_BODY } = await import('../../base/schema-builders.ts')
  const pieces: Uint8Array[] = []
  let size = 0
  try {
    for await (const bytes of (file === '-' ? Bun.stdin : Bun.file(file)).stream()) {
      pieces.push(bytes)
      size += bytes.length
      if (size > LARGEST_BODY) break
    }
  } catch {
    throw invalid(`request: ${file} cannot be read: expected ${BODY_SOURCES}`)
  }
  if (size > LARGEST_BODY) throw invalid(`request: expected at most ${LARGEST_BODY} bytes`)
  return Buffer.concat(pieces)
}

/** Prints an explanation for people. */
export function printExplanation(explanation: Explanation): void {
  printFields(buildSummary(explanation))
  printEndpoints(explanation)
  printDropped(explanation)
  printPolicy(explanation)
  const unconfigured = new Set(
    explanation.dropped.filter(isUnconfigured).map(({ provider }) => provider),
  )
  if (unconfigured.size > 0) print(`\nNot configured: ${[...unconfigured].join(', ')}`)
  print(`\n${renderOutcome(explanation)}`)
}

function printEndpoints({ endpoints }: Explanation): void {
  printSection(
    [
      '#',
      'PROVIDER',
      'MODEL',
      'PROMPT $/M',
      'COMPLETION $/M',
      'ESTIMATE',
      'AT MOST',
      'CHANCE',
      'REMARKS',
    ],
    endpoints.map((endpoint, i) => [
      i + 1,
      endpoint.provider,
      endpoint.model,
      ...renderPrices(endpoint),
      ...renderCosts(endpoint),
      formatPercent(endpoint.probability),
      renderRemarks(endpoint),
    ]),
  )
}

// Most models have mostly unconfigured providers, for which the names are enough.
function printDropped({ dropped }: Explanation): void {
  printSection(
    ['DROPPED', 'MODEL', 'BY', 'WHY'],
    dropped
      .filter(one => !isUnconfigured(one))
      .map(({ provider, model, excluded_by, reason }) => [provider, model, excluded_by, reason]),
  )
}

function printPolicy({ policy: { limits, filters } }: Explanation): void {
  printSection(
    ['LIMIT OF', 'PERIOD', 'USD', 'LEFT', 'PAYS'],
    limits.map(entry => [
      shorten(entry.account),
      entry.period,
      formatDollars(entry.limit_usd),
      formatDollars(entry.remaining_usd),
      entry.pays,
    ]),
  )
  printSection(
    ['FILTER', 'ACTION', 'LOOKS AT', 'FOUND', 'OF GUARDRAIL'],
    filters.map(entry => [
      entry.filter,
      entry.action,
      entry.looks_at.join(' and '),
      entry.found,
      entry.guardrail_id,
    ]),
  )
}

const isUnconfigured = ({ excluded_by }: ExplainedDrop) => excluded_by === 'not_configured'

const SHORT = 20
const shorten = (account: string) =>
  account.length > SHORT ? `${account.slice(0, SHORT)}…` : account

function printSection(headings: string[], rows: (string | number | null)[][]): void {
  if (rows.length === 0) return
  print('')
  printTable(headings, rows)
}

const buildSummary = ({
  key,
  workspace,
  policy,
  region,
  preset,
  requested,
  models,
  strategy,
  stages,
}: Explanation) => ({
  key: key ? `${key.name} (${key.label})` : 'none',
  workspace: workspace.slug ?? workspace.id,
  guardrails:
    policy.guardrails.map(({ id, name, scope }) => `${name ?? id} (of the ${scope})`).join(', ') ||
    'none',
  tree: `${policy.tree.calls} calls of providers, ${policy.tree.at_once} at once, ${policy.tree.depth} deep`,
  region: region === null ? null : `${region} (allowed: ${policy.regions.join(', ') || 'none'})`,
  preset: preset && `${preset.slug}, version ${preset.version}`,
  requested: requested.join(', ') || null,
  models: models.length > 0 ? `${models.join(', ')} (${strategy})` : null,
  ...(stages.length > 0
    ? {
        stages: stages
          .map(({ name, summary }) => (summary === undefined ? name : `${name}: ${summary}`))
          .join('; '),
      }
    : {}),
})

const renderPrices = ({ pricing: { prompt, completion } }: ExplainedEndpoint) => [
  formatPerMillion(prompt),
  formatPerMillion(completion),
]

const formatPerMillion = (usdPerToken: unknown) =>
  usdPerToken === '-1' ? 'unknown' : String(Number((Number(usdPerToken) * 1e6).toFixed(6)))

const renderCosts = ({ estimated_cost, max_cost }: ExplainedEndpoint) => [
  formatDollars(estimated_cost?.usd ?? null),
  formatDollars(max_cost),
]

const formatPercent = (probability: number | null) =>
  probability === null ? null : `${Math.round(probability * 1000) / 10} %`

const renderRemarks = ({
  is_byok,
  session,
  cooldown,
  hedge_after,
  ignored_parameters,
}: ExplainedEndpoint): string =>
  [
    ...(is_byok ? ['with a key of the caller’s own'] : []),
    ...(session ? ['the session is here'] : []),
    ...(cooldown ? [`cooling down until ${cooldown.until} (${cooldown.reason})`] : []),
    ...(hedge_after === null ? [] : [`hedged after ${hedge_after} ms`]),
    ...(ignored_parameters.length > 0 ? [`ignores ${ignored_parameters.join(', ')}`] : []),
  ].join('; ')

function renderOutcome({ endpoints: [first], set_aside, error }: Explanation): string {
  if (error) return `It would be refused: ${error.code} ${error.message}`
  if (!first) return 'It would go to no endpoint.'
  const usd = set_aside?.credits ?? set_aside?.byok ?? null
  const isPriced = first.pricing.prompt !== '-1'
  const held = usd === null ? '' : `, with ${formatDollars(usd)} set aside`
  const reserved = isPriced ? held : ', at an unknown price'
  return `It would go to ${first.provider} first, as ${first.upstream_model}${reserved}.`
}
