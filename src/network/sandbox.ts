import { type ByteSource, readWhole } from '../base/byte-source.ts'
import type { Cancellation } from '../base/cancellation.ts'
import { yieldToEventLoop } from '../base/clock.ts'
import { isObject, type Json, readString } from '../base/json.ts'
import { writeMp4 } from '../base/mp4.ts'
import { readWavHead } from '../base/wav.ts'
import { estimateByRuleOfThumb } from '../translation/tokenizers/rule-of-thumb.ts'
import {
  answerEmbeddings,
  answerPictures,
  answerSpeech,
  drawPattern,
  findEmbeddingsRefusal,
} from './sandbox/other-kinds.ts'

/** The parameter `sandbox` of a request: how the sandbox is to behave. */
interface SandboxOptions {
  /** Answers with this status instead. */
  fail?: number
  /** Breaks the stream off after this many words. */
  cut_after?: number
  /** Milliseconds before the first word, and between words. */
  delay_ms?: number
}

/**
 * Answers for the built-in provider: an OpenAI chat server in this process that echoes the last
 * message. It streams word by word, calls a tool when `tool_choice` or the message names one, fills
 * a given schema, and fails on request: `{"sandbox": {"fail": 503}}`. The same request always gets
 * the same answer. At `/embeddings` it returns vectors, and at `/images/generations` it draws, and at
 * `/audio/speech` it hums. At `/videos` it films. What costs nothing must not take much either: a reply has at most `LONGEST_REPLY` characters, and
 * vectors and pictures have bounds too.
 */
export async function askSandbox(
  path: string,
  body: Json,
  cancellation: Cancellation,
  attached?: ByteSource,
): Promise<Response> {
  const options = isObject(body.sandbox) ? (body.sandbox as SandboxOptions) : {}
  await yieldToEventLoop()
  await pause(options.delay_ms, cancellation)
  if (options.fail)
    return Response.json(
      { error: { message: 'Told to fail', code: 'sandbox_failure' } },
      { status: toErrorStatus(options.fail) },
    )
  if (path === '/embeddings') return answerWithVectors(body)
  if (path === '/images/generations') return Response.json(await answerPictures(body))
  if (isAboutVideos(path)) return answerVideos(path, body)
  if (path === '/audio/speech') return answerSpeech(body)
  if (path === '/audio/transcriptions' && attached) return answerTranscription(body, attached)
  const reply = composeReply(body)
  return body.stream === true
    ? streamCompletion(reply, body, options, cancellation)
    : Response.json(renderCompletion(reply, body))
}

/** The most characters of a reply. What is longer ends as at any model, with "length". */
const LONGEST_REPLY = 64 * 1024

async function answerWithVectors(body: Json): Promise<Response> {
  const refusal = findEmbeddingsRefusal(body)
  return refusal === undefined
    ? Response.json(await answerEmbeddings(body))
    : Response.json({ error: { message: refusal, code: 'too_large' } }, { status: 400 })
}

interface Reply {
  reasoning: string | null
  words: string[]
  call: { name: string; arguments: string } | null
  finish: 'stop' | 'length' | 'tool_calls'
}

function composeReply(body: Json): Reply {
  const userText = readPrompt(body.messages)
  const reasoning = wantsReasoning(body)
    ? `The user said: ${userText.slice(0, LONGEST_REPLY)}`
    : null
  const tool = pickTool(body, userText)
  if (tool)
    return {
      reasoning,
      words: [],
      call: { name: tool.name, arguments: renderExample(tool.parameters, userText) },
      finish: 'tool_calls',
    }
  const text = formatReply(body.response_format, userText)
  const words = cutWords(text.slice(0, LONGEST_REPLY))
  const maxWords = Number(body.max_tokens ?? body.max_completion_tokens ?? Number.POSITIVE_INFINITY)
  return {
    reasoning,
    words: words.slice(0, maxWords),
    call: null,
    finish: words.length > maxWords || text.length > LONGEST_REPLY ? 'length' : 'stop',
  }
}

/**
 * Cuts a text after each of its words; blanks after the last one are left out. A pattern that begins
 * with blanks would read a run of them once from each.
 */
function cutWords(text: string): string[] {
  const words: string[] = []
  let from = 0
  for (const { 0: word, index } of text.matchAll(/\S+/g)) {
    words.push(text.slice(from, index + word.length))
    from = index + word.length
  }
  return words
}

// A conversation that ends with an assistant message is a prefill, which the echo continues.
function readPrompt(messages: unknown): string {
  const conversation = Array.isArray(messages) ? messages.filter(isObject) : []
  const last = conversation.findLast(turn => turn.role === 'user' || turn.role === 'tool')
  return readContentText(last?.content) || 'Hello from the sandbox'
}

function readContentText(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map(part =>
      isObject(part)
        ? typeof part.text === 'string'
          ? part.text
          : `[${readString(part.type) ?? 'content'}]`
        : '',
    )
    .join(' ')
}

const wantsReasoning = (body: Json) =>
  typeof body.reasoning_effort === 'string' && body.reasoning_effort !== 'none'

interface ToolDefinition {
  name: string
  parameters: unknown
}

function pickTool(body: Json, userText: string): ToolDefinition | undefined {
  const tools = Array.isArray(body.tools)
    ? body.tools.flatMap(tool =>
        isObject(tool) && isObject(tool.function)
          ? [tool.function as unknown as ToolDefinition]
          : [],
      )
    : []
  const choice = body.tool_choice
  if (choice === 'none') return undefined
  if (choice === 'required') return tools[0]
  if (isObject(choice) && isObject(choice.function))
    return tools.find(tool => tool.name === (choice.function as Json).name)
  const answersATool =
    Array.isArray(body.messages) &&
    isObject(body.messages.at(-1)) &&
    body.messages.at(-1).role === 'tool'
  return answersATool ? undefined : tools.find(tool => userText.includes(tool.name))
}

function formatReply(format: unknown, userText: string): string {
  if (!isObject(format)) return userText
  if (format.type === 'json_object')
    return JSON.stringify({ echo: userText.slice(0, LONGEST_REPLY / 2) })
  if (format.type === 'json_schema' && isObject(format.json_schema))
    return renderExample(format.json_schema.schema, userText)
  return userText
}

/**
 * Renders a value that fits a simple schema as JSON, with the message as the value of every string.
 * A schema may have thousands: together they have half of the longest reply, so that a usual one
 * stays whole, and the rest are empty.
 */
function renderExample(schema: unknown, userText: string): string {
  let left = LONGEST_REPLY / 2
  const takeText = () => {
    const text = userText.slice(0, left)
    left -= text.length
    return text
  }
  return JSON.stringify(buildExample(schema, takeText))
}

function buildExample(schema: unknown, takeText: () => string, depth = 0): unknown {
  if (!isObject(schema) || depth > 8) return {}
  if (Array.isArray(schema.enum)) return schema.enum[0]
  if ('const' in schema) return schema.const
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type
  if (type === 'string') return takeText()
  if (type === 'number' || type === 'integer') return 1
  if (type === 'boolean') return true
  if (type === 'null') return null
  if (type === 'array') return schema.items ? [buildExample(schema.items, takeText, depth + 1)] : []
  const properties = isObject(schema.properties) ? Object.entries(schema.properties) : []
  return Object.fromEntries(
    properties.map(([name, property]) => [name, buildExample(property, takeText, depth + 1)]),
  )
}

const HEAD = { id: 'chatcmpl-sandbox', created: 0, model: 'echo', system_fingerprint: 'sandbox' }

function renderCompletion(reply: Reply, body: Json) {
  const { reasoning, call, finish } = reply
  const content = call ? null : reply.words.join('')
  const tool_calls = call ? [{ id: 'call_sandbox_0', type: 'function', function: call }] : undefined
  const message = {
    role: 'assistant',
    content,
    ...(reasoning ? { reasoning } : {}),
    ...(tool_calls ? { tool_calls } : {}),
  }
  return {
    ...HEAD,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: finish }],
    usage: countUsage(reply, body),
  }
}

function countUsage({ words, reasoning, call }: Reply, body: Json) {
  const messages = Array.isArray(body.messages) ? body.messages.filter(isObject) : []
  const prompt_tokens = estimateByRuleOfThumb(
    messages.map(({ role, content }) => `${role}: ${readContentText(content)}`),
  )
  const reasoning_tokens = reasoning ? estimateByRuleOfThumb([reasoning]) : 0
  const completion_tokens =
    words.length + reasoning_tokens + (call ? estimateByRuleOfThumb([call.arguments]) : 0)
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    completion_tokens_details: { reasoning_tokens },
  }
}

function streamCompletion(
  reply: Reply,
  body: Json,
  options: SandboxOptions,
  cancellation: Cancellation,
): Response {
  const events = renderChunks(reply, body)
  let words = 0
  const stream = new ReadableStream({
    async pull(controller) {
      await pause(words > 0 ? options.delay_ms : 0, cancellation)
      // Nothing else in here waits, and others have to get their turn.
      if (words % WORDS_PER_TURN === WORDS_PER_TURN - 1) await yieldToEventLoop()
      const { done, value } = events.next()
      if (done || (options.cut_after !== undefined && words >= options.cut_after))
        return controller.close()
      words += 1
      controller.enqueue(
        new TextEncoder().encode(
          `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`,
        ),
      )
    },
  })
  return new Response(stream, { headers: { 'content-type': 'text/event-stream' } })
}

function* renderChunks(reply: Reply, body: Json): Generator<Json | string> {
  const chunk = (delta: Json, finish_reason: string | null = null): Json => ({
    ...HEAD,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, finish_reason }],
  })
  if (reply.reasoning) yield chunk({ role: 'assistant', reasoning: reply.reasoning })
  for (const word of reply.words) yield chunk({ role: 'assistant', content: word })
  if (reply.call)
    yield chunk({
      role: 'assistant',
      tool_calls: [{ index: 0, id: 'call_sandbox_0', type: 'function', function: reply.call }],
    })
  yield chunk({}, reply.finish)
  yield { ...HEAD, object: 'chat.completion.chunk', choices: [], usage: countUsage(reply, body) }
  yield '[DONE]'
}

const WORDS_PER_TURN = 64
const LONGEST_PAUSE = 60_000

function pause(milliseconds: number | undefined, cancellation: Cancellation): Promise<void> {
  if (!milliseconds || !(milliseconds > 0)) return Promise.resolve()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, Math.min(milliseconds, LONGEST_PAUSE))
  cancellation.listen(reject)
  return promise.finally(() => clearTimeout(timer))
}

const toErrorStatus = (status: number) =>
  Number.isInteger(status) && status >= 400 && status <= 599 ? status : 500

/** The words of a recording stand before its sound. */
const HEAD_SIZE = 64 * 1024

/**
 * Answers like an OpenAI transcription server. Of its own recordings it knows the words, as they
 * are written in them; of others it says how large they are. The words are spread evenly over the
 * time. The same recording always gets the same text.
 */
async function answerTranscription(_: Json, recording: ByteSource): Promise<Response> {
  const head = Buffer.from(await readWhole(recording, 0, HEAD_SIZE))
  const wav = readWavHead(head)
  const sound =
    typeof wav === 'object' ? wav : { offset: 0, size: recording.size, byteRate: 16_000 }
  const duration = (sound.size ?? recording.size - sound.offset) / sound.byteRate
  const text =
    readComment(head.subarray(0, sound.offset)) ?? `A recording of ${recording.size} bytes`
  const spoken = text.match(/\S+/g) ?? []
  const words = spoken.map((word, i) => ({
    word,
    start: roundTime((duration * i) / spoken.length),
    end: roundTime((duration * (i + 1)) / spoken.length),
  }))
  const segments = [{ id: 0, start: 0, end: roundTime(duration), text }]
  const usage = { type: 'duration', seconds: Math.ceil(duration) }
  const language = 'english'
  return Response.json({ task: 'transcribe', text, language, duration, segments, words, usage })
}

const roundTime = (seconds: number): number => Math.round(seconds * 1_000) / 1_000

/** Reads the comment of a RIFF file, if it has one. */
function readComment(head: Buffer): string | undefined {
  const at = head.indexOf('ICMT')
  if (at === -1 || at + 8 > head.length) return undefined
  const size = head.readUInt32LE(at + 4)
  return head.toString('utf8', at + 8, Math.min(at + 8 + size, head.length)).replace(/\0+$/, '')
}

/** The sides of a video. They are small, as it is only looked at once. */
const [WIDTH, HEIGHT] = [256, 144]
/** Pictures in a second. */
const RATE = 2
const LONGEST = 60
const USUAL = 4

/**
 * Answers like an OpenAI video server: a job is done as soon as it is asked about, and its video is
 * a pattern that the prompt decides. The id of a job says all about it, so nothing is kept.
 */
function answerVideos(path: string, body: Json): Response {
  const [, , id, part] = path.split('/')
  if (id === undefined) return beginVideo(body)
  const found = /^sandbox-(\d{1,2})-(\d{1,10})$/.exec(id)
  if (!found) return refuse(404, 'The sandbox knows no such job')
  const [, seconds = '', hash = ''] = found
  if (part !== 'content')
    return Response.json({ id, object: 'video', status: 'completed', seconds })
  return new Response(draw(Number(seconds), Number(hash)), {
    headers: { 'content-type': 'video/mp4' },
  })
}

function beginVideo({ prompt, seconds }: Json): Response {
  const length = Number(readString(seconds) ?? USUAL)
  if (length > LONGEST) return refuse(400, `The sandbox makes at most ${LONGEST} seconds`)
  const hash = Bun.hash.xxHash32(readString(prompt) ?? '')
  return Response.json({ id: `sandbox-${length}-${hash}`, object: 'video', status: 'queued' })
}

const refuse = (status: number, message: string): Response =>
  Response.json({ error: { message, code: 'refused' } }, { status })

function draw(seconds: number, hash: number): Buffer<ArrayBuffer> {
  const frames = Array.from({ length: seconds * RATE }, (_, i) =>
    drawPattern({ width: WIDTH, height: HEIGHT }, hash + i),
  )
  return writeMp4({ width: WIDTH, height: HEIGHT, frames, rate: RATE })
}

/** Tells whether a path is about videos. */
const isAboutVideos = (path: string): boolean => /^\/videos(\/|$)/.test(path.split('?')[0] ?? '')
