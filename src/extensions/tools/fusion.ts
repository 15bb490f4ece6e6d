import { GatewayError, invalid } from '../../base/errors.ts'
import { isObject, type Json, parseObject, readString } from '../../base/json.ts'
import type { Message } from '../../language/message.ts'
import type { ToolProgress } from '../../language/part.ts'
import { findRouter } from '../../language/routing.ts'
import type { ServerToolRequest } from '../../language/server-tools.ts'
import { createAsker } from '../asker.ts'
import type { Healer } from '../healing.ts'
import { askModel, type InnerAnswer, type InnerWatch } from '../server-tool/inner.ts'
import type {
  ServerTool,
  ToolContext,
  ToolFunction,
  ToolInvocation,
  ToolResult,
  ToolSource,
  ToolWorld,
} from '../server-tool.ts'
import { isToolDisabled } from './disabled.ts'
import {
  type FusionOptions,
  FusionParameters,
  listPanel,
  readFusionOptions,
} from './fusion/options.ts'
import { buildMessage, checkInnerModel } from './inner-call.ts'
import { markAsData } from './untrusted-text.ts'

/** What a judge finds in the answers of a panel (wire reference D.4). */
interface FusionAnalysis {
  consensus: string[]
  contradictions: { topic: string; stances: { model: string; stance: string }[] }[]
  partial_coverage: { models: string[]; point: string }[]
  unique_insights: { model: string; insight: string }[]
  blind_spots: string[]
}

/** What a judge is told to answer with. */
const ANALYSIS_SHAPE = `{
  "consensus": ["a point that all or most answers share"],
  "contradictions": [{"topic": "…", "stances": [{"model": "…", "stance": "…"}]}],
  "partial_coverage": [{"point": "what only some answers have", "models": ["…"]}],
  "unique_insights": [{"model": "…", "insight": "…"}],
  "blind_spots": ["what no answer looks at"]
}`

/**
 * Reads the analysis that a judge has written, prose and fences around it left out. Entries in
 * another form are left out too; null if the text is no analysis at all.
 */
async function readAnalysis(
  healer: Healer,
  { run, cancellation }: ToolInvocation,
  text: string,
): Promise<FusionAnalysis | null> {
  const healed = await healer.heal({ text, schema: null }, createAsker(run, cancellation))
  if (healed.outcome === 'unmended') return null
  const found = parseObject(healed.outcome === 'mended' ? healed.text : text)
  return found && FIELDS.some(name => Array.isArray(found[name])) ? toAnalysis(found) : null
}

const FIELDS = [
  ...['consensus', 'contradictions', 'partial_coverage', 'unique_insights', 'blind_spots'],
]

const toAnalysis = (found: Json): FusionAnalysis => ({
  consensus: listTexts(found.consensus),
  contradictions: listObjects(found.contradictions).flatMap(toContradiction),
  partial_coverage: listObjects(found.partial_coverage).flatMap(({ point, models }) =>
    typeof point === 'string' ? { point, models: listTexts(models) } : [],
  ),
  unique_insights: listObjects(found.unique_insights).flatMap(({ model, insight }) =>
    typeof insight === 'string' ? { model: readString(model) ?? '', insight } : [],
  ),
  blind_spots: listTexts(found.blind_spots),
})

const toContradiction = ({ topic, stances }: Json) =>
  typeof topic === 'string'
    ? {
        topic,
        stances: listObjects(stances).flatMap(({ model, stance }) =>
          typeof stance === 'string' ? { model: readString(model) ?? '', stance } : [],
        ),
      }
    : []

const listTexts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter(one => typeof one === 'string') : []

const listObjects = (value: unknown): Json[] =>
  Array.isArray(value) ? value.filter(one => isObject(one)) : []

const NAME = 'fusion'

/** Asks several models side by side, and another what their answers agree in (reference D.6). */
export const fusion: ServerTool<FusionOptions> = {
  name: NAME,
  schema: FusionParameters,
  readOptions: readFusionOptions,
  findObstacle,
  takesTurns: true,
  listModels: ({ analysis_models, model }) => [
    ...(analysis_models ?? []),
    ...(model === null ? [] : [model]),
  ],
  listFunctions(world, context) {
    checkModels(world, context)
    return [FUNCTION]
  },
  describeUse: () => ({}),
  run: runFusion,
}

const FUNCTION: ToolFunction = {
  name: NAME,
  description:
    'Asks a panel of other models the same question, side by side, and returns where they agree, ' +
    'where they contradict each other and what they miss. Use it where several views are worth ' +
    'their time and cost: research, critique, comparisons, decisions. Not for simple tasks.',
  parameters: {
    type: 'object',
    properties: {
      prompt: {
        type: 'string',
        description: 'The whole question, with all it needs: the panel sees nothing else',
      },
    },
    required: ['prompt'],
    additionalProperties: false,
  },
}

function findObstacle(world: ToolWorld, options: FusionOptions): string | null {
  if (listPanel(world, options).length === 0)
    return 'neither analysis_models nor server_tools.fusion.analysis_models of the config names models'
  for (const { name, type, options: of } of options.tools ?? []) {
    const obstacle = world.tools.find(tool => tool.name === name)?.findObstacle(world, of)
    if (obstacle) return `its tool ${type} does not work: ${obstacle}`
  }
  return null
}

/** Throws 400 for a model that does not exist, or that would ask a panel itself. */
function checkModels(world: ToolWorld, { options, run }: ToolContext<FusionOptions>): void {
  const { analysis_models, model, path, params } = options
  const at = (name: string) => `${path}.${name}`
  const named: [slug: string, field: string][] = listPanel(world, options).map((slug, i) => [
    slug,
    analysis_models === null ? SETTING : at(`analysis_models.${i}`),
  ])
  if (model !== null) named.push([model, at('model')])
  for (const [slug, field] of named) {
    if (findRouter(world.config, slug) === NAME)
      throw invalid(`${field}: expected a model that asks no panel itself`, field)
    checkInnerModel(world, run, { slug, params, field, mayBeExcluded: field !== at('model') })
  }
}

const SETTING = 'server_tools.fusion.analysis_models'

/** A model of the panel, and what it answered. */
interface PanelAnswer {
  slug: string
  answer: InnerAnswer
}

async function runFusion(
  world: ToolWorld,
  invocation: ToolInvocation<FusionOptions>,
): Promise<ToolResult> {
  const prompt = readString(invocation.input.prompt)?.trim() ?? ''
  if (prompt === '') return fail('prompt: expected a text', 'invalid_arguments')
  if (isWithinFusion(invocation))
    return fail('A model of a panel cannot ask a panel itself.', 'recursion')
  const panel = await askPanel(world, invocation, prompt)
  const answered = panel.filter(({ answer }) => answer.error === null)
  const failed = panel.filter(({ answer }) => answer.error !== null)
  if (answered.length === 0)
    return fail('No model of the panel gave an answer.', 'all_models_failed', failed)
  const judge = await askJudge(world, invocation, prompt, answered)
  const analysis =
    judge.error === null ? await readAnalysis(world.healer, invocation, judge.text) : null
  return buildResult(answered, failed, analysis, [...panel.map(({ answer }) => answer), judge])
}

function isWithinFusion({ run }: ToolInvocation): boolean {
  for (let { within } = run; within; within = within.run.within)
    if (within.name === NAME) return true
  return false
}

/** Asks every model of the panel at once. One that ends the whole call ends the others. */
async function askPanel(
  world: ToolWorld,
  invocation: ToolInvocation<FusionOptions>,
  prompt: string,
): Promise<PanelAnswer[]> {
  const { options, cancellation } = invocation
  const question = buildQuestion(prompt, options)
  const asking = listPanel(world, options).map(async slug => {
    const { show } = invocation
    show?.({ type: 'panel-start', model: slug })
    const asked = { models: [slug], messages: [question], params: options.params }
    const tools = listTools(world, invocation, [slug])
    const watch = watchPanel(invocation, slug)
    const answer = await askModel(world, invocation, { ...asked, ...tools }, watch)
    show?.(toProgress({ slug, answer }))
    return { slug, answer }
  })
  try {
    return await Promise.all(asking)
  } catch (thrown) {
    cancellation.cancel(GatewayError.from(thrown))
    throw thrown
  }
}

const watchPanel = ({ show }: ToolInvocation, model: string): InnerWatch | null =>
  show ? (kind, text) => show({ type: `panel-${kind}`, model, text }) : null

const toProgress = ({ slug: model, answer }: PanelAnswer): ToolProgress => {
  const { text, error, status } = answer
  return error === null
    ? { type: 'panel-end', model, text }
    : { type: 'panel-failure', model, error, status }
}

function buildQuestion(prompt: string, { cache_control }: FusionOptions): Message {
  if (!cache_control) return buildMessage('user', prompt)
  return { role: 'user', blocks: [{ type: 'text', text: prompt, cache_control }] }
}

/** Asks the judge to compare the answers: the model of the parameters, or the one that asks. */
function askJudge(
  world: ToolWorld,
  invocation: ToolInvocation<FusionOptions>,
  prompt: string,
  answered: PanelAnswer[],
): Promise<InnerAnswer> {
  const models = pickJudge(world, invocation)
  const { temperature: _, ...params } = invocation.options.params
  invocation.show?.({ type: 'analysis-start', model: models[0] ?? '' })
  const answers = answered.map(({ slug, answer }) => markAsData(slug, answer.text)).join('\n\n')
  return askModel(world, invocation, {
    models,
    messages: [buildMessage('system', JUDGE), buildMessage('user', `${prompt}\n\n${answers}`)],
    params: { ...params, temperature: 0 },
    ...listTools(world, invocation, models),
  })
}

const JUDGE =
  'You compare what several models answered to one question. Do not merge their answers and do ' +
  'not answer the question yourself. Weigh the points, not the number of words. Reply with one ' +
  `JSON object in this form, and nothing else:\n${ANALYSIS_SHAPE}`

function pickJudge(
  { config }: ToolWorld,
  { options, run }: ToolInvocation<FusionOptions>,
): string[] {
  const named = options.model ?? config.server_tools.fusion.model
  if (named !== undefined) return [named]
  const asking = run.step?.answer?.endpoint.model
  return asking === undefined ? run.call.models : [asking]
}

/** The tools that a panel has if its parameters name none (wire reference D.6). */
const DEFAULT_TOOLS = ['web_search', 'web_fetch']

/** Lists the tools that these models may use, with what stops them. */
function listTools(world: ToolWorld, invocation: ToolInvocation<FusionOptions>, slugs: string[]) {
  const { tools, max_tool_calls: step_count } = invocation.options
  const requests = tools ?? listDefaultTools(world, invocation, slugs)
  if (requests.length === 0) return {}
  return { serverTools: { requests, stops: [{ type: 'step_count_is' as const, step_count }] } }
}

/** Lists the default tools that work here. A model that calls no functions has none. */
function listDefaultTools(
  world: ToolWorld,
  { run }: ToolInvocation<FusionOptions>,
  slugs: string[],
): ServerToolRequest[] {
  if (slugs.some(slug => !callsFunctions(world, slug))) return []
  return DEFAULT_TOOLS.flatMap(name => {
    const tool = world.tools.find(one => one.name === name)
    const options = tool?.readOptions({}, name)
    if (!tool || tool.findObstacle(world, options) !== null) return []
    if (isToolDisabled(world, run, name) || !isOfGateway(world, tool)) return []
    return { name, identity: name, type: `openrouter:${name}`, options, field: 'tools' }
  })
}

/** Whether one of the gateway's own engines works, of a tool that has such. */
const isOfGateway = (world: ToolWorld, tool: ServerTool): boolean =>
  tool.listParts?.(world).some(({ obstacle }) => obstacle === null) ?? true

const callsFunctions = ({ catalog }: ToolWorld, slug: string): boolean =>
  catalog.models
    .get(slug)
    ?.endpoints.some(({ supported_parameters }) => supported_parameters?.has('tools') ?? true) ??
  true

/** Builds the result of answers. One without analysis is a result all the same. */
function buildResult(
  answered: PanelAnswer[],
  failed: PanelAnswer[],
  analysis: FusionAnalysis | null,
  asked: InnerAnswer[],
): ToolResult {
  const found = new Map(asked.flatMap(({ sources }) => sources).map(one => [one.url, one]))
  const sources: ToolSource[] = [...found.values()]
  const item = {
    ...(analysis ? { analysis } : {}),
    responses: answered.map(({ slug, answer }) => ({ model: slug, content: answer.text })),
    ...listFailures(failed),
    ...(sources.length > 0
      ? { sources: sources.map(({ url, title }) => ({ url, title: title ?? '' })) }
      : {}),
  }
  const text = JSON.stringify({ status: 'ok', ...item })
  return { text, isError: false, item, ...(sources.length > 0 ? { sources } : {}) }
}

const listFailures = (failed: PanelAnswer[]): Json =>
  failed.length === 0
    ? {}
    : {
        failed_models: failed.map(({ slug, answer: { error, status } }) => ({
          model: slug,
          error: error ?? '',
          ...(status === null ? {} : { status_code: status }),
        })),
      }

function fail(error: string, failure_reason: string, failed: PanelAnswer[] = []): ToolResult {
  const item = { error, failure_reason, ...listFailures(failed) }
  return { text: JSON.stringify({ status: 'error', ...item }), isError: true, item }
}
