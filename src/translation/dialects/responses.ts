import { type Static, Type } from '@sinclair/typebox'
import { GatewayError, invalid } from '../../base/errors.ts'
import { isObject, type Json, readObjects } from '../../base/json.ts'
import { open, optional } from '../../base/schema-builders.ts'
import type { Answer } from '../../language/answer.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block } from '../../language/message.ts'
import type { TextPart } from '../../language/part.ts'
import { createFreeReceipt, createTextUsage } from '../../language/usage.ts'
import { type PresetDraft, pickPresetConfig } from '../../resources/presets/draft.ts'
import { isCompacting } from '../compaction.ts'
import type { AnswerHeader, BegunStream, Dialect, PresetForm } from './dialect.ts'
import { writeEvents } from './events.ts'
import { withPresets } from './presets.ts'
import { isTooLong, RESPONSES_ERROR_FORMAT } from './responses/error.ts'
import type { ItemEvent } from './responses/events.ts'
import { toResponsesCall } from './responses/request.ts'
import { collectResponse, ResponseBuilder } from './responses/response.ts'
import {
  checkMetadata,
  type Format,
  type FunctionTool,
  ResponsesRequest,
  settingFields,
  sharedFields,
} from './responses/schema.ts'
import { routingFields } from './routing.ts'
import { presetCacheFields } from './schema.ts'
import { readStops } from './server-tools.ts'

const DONE = 'data: [DONE]\n\n'

/** The last events repeat all of a text, several times: long ones are not joined to another. */
const LONG_EVENT = 64 * 1024

/**
 * Turns the parts of an answer into the events of a response (wire reference D.5): `created` and
 * `in_progress`, the events of its items, one of `completed`, `incomplete` and `failed`, `[DONE]`.
 * All are numbered from zero without a gap. In the background `queued` is between the first two. While the client waits, `in_progress` is said again: the
 * clocks of some clients do not hear comments, and no client stumbles over an event that it knows.
 */
export class ResponseStream implements BegunStream<'text'> {
  readonly #response: ResponseBuilder
  #number = 0
  #hasBegun = false

  constructor(heading: AnswerHeader, call: TextCall, body: ResponsesRequest) {
    this.#response = new ResponseBuilder(heading, call, body)
  }

  renderKeepAlive(): string {
    if (!this.#hasBegun) return this.#begin([])
    const response = { ...this.#response.render(), output: [], output_text: '' }
    return this.#renderEvent({ type: 'response.in_progress', response })
  }

  streamEvents(answer: Answer<'text'>): AsyncIterator<string> {
    if (this.#hasBegun) this.#response.takeHeading(answer)
    return writeEvents(answer, { write: parts => this.#write(parts) })
  }

  renderFailure(error: GatewayError): string {
    const receipt = createFreeReceipt(createTextUsage(0, 0))
    const events = this.#write([
      { type: 'error', error },
      { type: 'receipt', receipt, siblingFields: error.siblingFields },
    ])
    return [events].flat().join('')
  }

  render(): Json {
    return this.#response.render()
  }

  get isWhole(): boolean {
    return this.#response.status !== 'in_progress'
  }

  /**
   * Renders the events of one batch: as one text, or one by one where they are long. The first batch
   * tells the service tier.
   */
  #write(parts: TextPart[]): string | string[] {
    const begun = this.#hasBegun ? [] : [this.#begin(parts)]
    const events = [...begun, ...parts.flatMap(part => this.#render(part))]
    return events.some(event => event.length > LONG_EVENT) ? events : events.join('')
  }

  #begin(parts: TextPart[]): string {
    this.#hasBegun = true
    for (const part of parts) if (part.type === 'start') this.#response.read(part)
    const response = this.#response.render()
    const { background } = response
    const created = background ? { ...response, status: 'queued' } : response
    return (
      this.#renderEvent({ type: 'response.created', response: created }) +
      (background ? this.#renderEvent({ type: 'response.queued', response: created }) : '') +
      this.#renderEvent({ type: 'response.in_progress', response })
    )
  }

  #render(part: TextPart): string[] {
    if (part.type === 'echo') {
      const debug = { echo_upstream_body: part.body }
      return [this.#renderEvent({ type: 'response.debug', debug })]
    }
    const events = this.#response.read(part).map(event => this.#renderEvent(event))
    if (part.type === 'receipt') events.push(this.#renderEnd())
    return events
  }

  #renderEnd(): string {
    const { status } = this.#response
    const response = this.#response.render()
    return this.#renderEvent({ type: `response.${status}`, response }) + DONE
  }

  // Events are ours alone, so their number is added in place.
  #renderEvent(event: ItemEvent): string {
    event.sequence_number = this.#number++
    return renderEvent(event)
  }
}

const renderEvent = (event: ItemEvent): string =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`

/** Renders how a response in the background stands as an event of this number. */
export function renderResponseStatus(response: Json, sequence_number: number): string {
  const event = renderEvent({ type: `response.${response.status}`, sequence_number, response })
  return response.status === 'in_progress' ? event : event + DONE
}

/** Streams the events of an answer. */
export const streamResponseEvents = (
  answer: Answer<'text'>,
  call: TextCall,
  body: ResponsesRequest,
): AsyncIterator<string> => new ResponseStream(answer, call, body).streamEvents(answer)

/** Renders a failure in place of an answer: a response that begins and fails. */
export const renderResponseFailure = (
  heading: AnswerHeader,
  error: GatewayError,
  call: TextCall,
  body: ResponsesRequest,
): string => new ResponseStream(heading, call, body).renderFailure(error)

const ResponsesPreset = Type.Object(
  {
    ...settingFields,
    ...presetCacheFields,
    input: Type.Optional(Type.Unknown()),
    store: optional(Type.Literal(false)),
    previous_response_id: optional(Type.Null()),
  },
  open,
)
type ResponsesPreset = Static<typeof ResponsesPreset>

/** A Responses request from which a preset is made (wire reference D.1). */
const responsesPreset: PresetForm<ResponsesPreset> = {
  name: 'responses',
  path: '/responses',
  operation: {
    id: 'createPresetsResponses',
    summary: 'Create a preset, or its next version, from a Responses request',
  },
  body: ResponsesPreset,
  toPresetDraft,
}

// Under the chat API's field names: `max_output_tokens` is `max_tokens`, and so on.
function toPresetDraft(body: ResponsesPreset): PresetDraft {
  readStops(body)
  checkMetadata(body)
  const config = pickPresetConfig({
    ...pickKnownFields(body),
    max_tokens: body.max_output_tokens,
    response_format: toResponseFormat(body.text?.format),
    verbosity: body.text?.verbosity,
    tools: body.tools?.map(toChatTool),
    tool_choice: toToolChoice(body.tool_choice),
  })
  return { system_prompt: body.instructions || null, config }
}

const KNOWN_FIELDS = new Set([
  ...Object.keys(routingFields),
  ...Object.keys(sharedFields),
  'reasoning',
  ...Object.keys(presetCacheFields),
])

// The Responses API does not document other fields, even those that a chat request has.
const pickKnownFields = (body: ResponsesPreset) =>
  Object.fromEntries(Object.entries(body).filter(([name]) => KNOWN_FIELDS.has(name)))

function toResponseFormat(format: Format | null | undefined): unknown {
  if (format?.type !== 'json_schema') return format
  const { type, ...json_schema } = format
  return { type, json_schema }
}

function toChatTool(tool: NonNullable<ResponsesPreset['tools']>[number]): unknown {
  if (tool.type !== 'function') return tool
  const { type, name, description, parameters, strict, ...extra } = tool as FunctionTool
  const definition = { name, description, parameters, strict }
  return {
    ...extra,
    type,
    function: Object.fromEntries(Object.entries(definition).filter(([, value]) => value != null)),
  }
}

const toToolChoice = (choice: ResponsesPreset['tool_choice']): unknown =>
  isObject(choice) && choice.type === 'function' && 'name' in choice
    ? { type: 'function', function: { name: choice.name } }
    : choice

/**
 * Prompt templates (wire reference D.1). A template is a preset: its `id` is the preset's slug, and
 * its variables fill the places `{{name}}` in the preset's system prompt.
 */

/** Returns the body with the preset that its template names. Throws 400 if it names two. */
function namePreset(body: ResponsesRequest): ResponsesRequest {
  const { prompt, preset } = body
  if (!prompt) return body
  if (preset != null && preset !== prompt.id)
    throw invalid('preset: expected the one that prompt names, or none', 'preset')
  readVariables(body)
  return { ...body, preset: prompt.id }
}

/** Returns the call with the template's variables in the preset's system prompt, its first message. */
function fillPrompt(call: TextCall, body: ResponsesRequest): TextCall {
  const variables = readVariables(body)
  const [first, ...rest] = call.messages
  if (variables.size === 0 || first?.role !== 'system') return call
  const blocks = first.blocks.map(block => fillBlock(block, variables))
  return { ...call, messages: [{ ...first, blocks }, ...rest] }
}

const PLACE = /\{\{\s{0,8}([\w.-]{1,200})\s{0,8}\}\}/g

const fillBlock = (block: Block, variables: Map<string, string>): Block =>
  block.type === 'text'
    ? { ...block, text: block.text.replace(PLACE, (place, name) => variables.get(name) ?? place) }
    : block

function readVariables({ prompt }: ResponsesRequest): Map<string, string> {
  const variables = new Map<string, string>()
  for (const [name, value] of Object.entries(prompt?.variables ?? {})) {
    const text = readText(value)
    if (text === undefined)
      throw invalid(
        `prompt.variables.${name.slice(0, 100)}: expected a text, as the preset's prompt is one`,
        `prompt.variables.${name.slice(0, 100)}`,
      )
    variables.set(name, text)
  }
  return variables
}

function readText(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  const { type, text } = (value ?? {}) as { type?: unknown; text?: unknown }
  return type === 'input_text' && typeof text === 'string' ? text : undefined
}

const toCallWithPreset = withPresets(toResponsesCall)

/** The Responses API (specification E3, wire reference D). Nothing is stored unless `responses.store` says so. */
export const responses: Dialect<'text', ResponsesRequest> = {
  name: 'responses',
  kind: 'text',
  path: '/responses',
  operation: {
    id: 'createResponses',
    tag: 'Responses',
    summary: 'Answer with a response of items, whole or streamed',
  },
  body: ResponsesRequest,
  errorFormat: RESPONSES_ERROR_FORMAT,
  showsRouting: true,
  storing: 'keep',
  toCall: (world, actor, body, context) =>
    fillPrompt(toCallWithPreset(world, actor, namePreset(body), context), body),
  collectResponse,
  streaming: {
    begin: (heading, call, body) => new ResponseStream(heading, call, body),
    tellsFailure: isTooLong,
    streamEvents: streamResponseEvents,
    renderFailure: renderResponseFailure,
  },
  preset: responsesPreset,
}

const { streaming: _, preset: __, ...base } = responses

/**
 * `POST /responses/compact`, as OpenAI's API has it: the conversation as a client goes on with it,
 * which is what its user said, and one `compaction` item for all else.
 */
export const compaction: Dialect<'text', ResponsesRequest> = {
  ...base,
  path: '/responses/compact',
  showsRouting: false,
  storing: 'read',
  operation: {
    id: 'compactResponse',
    tag: 'Responses',
    summary: 'Replace a conversation by a shorter one',
  },
  toCall: (world, actor, body, context) =>
    responses.toCall(world, actor, addTrigger(body), context),
  collectResponse: (answer, call, body) => collectCompaction(answer, call, addTrigger(body)),
}

/** Returns the body of a call that asks for a compaction, and that waits for it. */
function addTrigger(body: ResponsesRequest): ResponsesRequest {
  const items = listItems(body)
  const isAsked = items.at(-1)?.type === 'compaction_trigger'
  const input = isAsked ? items : [...items, { type: 'compaction_trigger' }]
  return { ...body, input, stream: false } as ResponsesRequest
}

const listItems = ({ input }: ResponsesRequest): Json[] =>
  typeof input === 'string'
    ? [{ type: 'message', role: 'user', content: input }]
    : readObjects(input)

/** Collects the answer. Throws `provider_unavailable` if it has no compaction. */
async function collectCompaction(
  answer: Answer<'text'>,
  call: TextCall,
  body: ResponsesRequest,
): Promise<Json> {
  const response = await collectResponse(answer, call, body)
  const made = readObjects(response.output).filter(({ type }) => type === 'compaction')
  if (made.length === 0 || !isCompacting(call))
    throw new GatewayError('provider_unavailable', 'The model made no summary')
  const said = listItems(body).filter(({ role }) => role === 'user')
  return {
    id: response.id,
    object: 'response.compaction',
    created_at: response.created_at,
    output: [...said, ...made],
    usage: response.usage,
  }
}
