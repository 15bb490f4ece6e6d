import { APICallError, type LanguageModel } from 'ai'
import type { Mode } from './recordings.ts'

/**
 * A model of the clients' common interface. Called directly, it runs no tools and never retries.
 */
export type Model = Extract<LanguageModel, { specificationVersion: 'v4' }>

type Options = Parameters<Model['doGenerate']>[0]
type Content = Awaited<ReturnType<Model['doGenerate']>>['content'][number]
type StreamPart =
  Awaited<ReturnType<Model['doStream']>>['stream'] extends ReadableStream<infer Part> ? Part : never
type ClientUsage = Awaited<ReturnType<Model['doGenerate']>>['usage']

/** What a client reads from one answer, in the form that all clients share. */
export interface Reading {
  text: string
  /** One per reasoning block: clients do not agree on the separator. */
  reasoning: string[]
  calls: { id: string; name: string; input: unknown }[]
  finish: string | null
  tokens: Tokens | null
  /** The status of a failed call, or `midstream` if the answer broke off. */
  failure: number | 'midstream' | null
}

/** Token counts. */
export interface Tokens {
  input: number
  output: number
  cached: number
  reasoning: number
}

const QUESTION: Options = {
  prompt: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }],
  // Google shows thoughts only to who asks for them.
  providerOptions: { google: { thinkingConfig: { includeThoughts: true } } },
}

/** Sends "Hi" to a model and reads its answer or its failure. Throws any other error. */
export async function readAnswer(model: Model, mode: Mode): Promise<Reading> {
  try {
    return mode === 'whole'
      ? readWhole(await model.doGenerate(QUESTION))
      : await readStream((await model.doStream(QUESTION)).stream)
  } catch (thrown) {
    if (!APICallError.isInstance(thrown)) throw thrown
    return { ...createEmptyReading(), failure: thrown.statusCode ?? 0 }
  }
}

const createEmptyReading = (): Reading => ({
  text: '',
  reasoning: [],
  calls: [],
  finish: null,
  tokens: null,
  failure: null,
})

function readWhole({
  content,
  finishReason,
  usage,
}: Awaited<ReturnType<Model['doGenerate']>>): Reading {
  const reading = {
    ...createEmptyReading(),
    finish: finishReason.unified,
    tokens: readTokens(usage),
  }
  for (const part of content) addContent(reading, part)
  return reading
}

function addContent(reading: Reading, part: Content): void {
  if (part.type === 'text') reading.text += part.text
  if (part.type === 'reasoning' && part.text !== '') reading.reasoning.push(part.text)
  if (part.type === 'tool-call' && !part.providerExecuted) reading.calls.push(toCall(part))
}

async function readStream(stream: ReadableStream<StreamPart>): Promise<Reading> {
  const reading = createEmptyReading()
  const thoughts = new Map<string, string>()
  for await (const part of stream) addStreamed(reading, part, thoughts)
  reading.reasoning = [...thoughts.values()].filter(text => text !== '')
  return reading
}

function addStreamed(reading: Reading, part: StreamPart, thoughts: Map<string, string>): void {
  switch (part.type) {
    case 'text-delta':
      reading.text += part.delta
      break
    case 'reasoning-delta':
      thoughts.set(part.id, (thoughts.get(part.id) ?? '') + part.delta)
      break
    case 'tool-call':
      addContent(reading, part)
      break
    case 'error':
      reading.failure = 'midstream'
      break
    case 'finish':
      reading.finish = part.finishReason.unified
      reading.tokens = readTokens(part.usage)
      break
  }
}

/** Parses the arguments, so that white space does not matter. None at all are an empty object. */
function toCall({
  toolCallId: id,
  toolName: name,
  input,
}: {
  toolCallId: string
  toolName: string
  input: string
}) {
  return { id, name, input: parseInput(input.trim() === '' ? '{}' : input) }
}

function parseInput(input: string): unknown {
  try {
    return JSON.parse(input)
  } catch {
    return input
  }
}

/** Clients leave out a missing detail, for which the gateway has 0. */
function readTokens({ inputTokens, outputTokens }: ClientUsage): Tokens | null {
  if (inputTokens.total === undefined || outputTokens.total === undefined) return null
  return {
    input: inputTokens.total,
    output: outputTokens.total,
    cached: inputTokens.cacheRead ?? 0,
    reasoning: outputTokens.reasoning ?? 0,
  }
}
