import type { Kind } from '../../src/language/work.ts'
import { buildWav, INPUT_AUDIO } from './recording.ts'
import { head, json, type Script } from './upstream.ts'

/** What each call costs, in USD. */
export const COST = 0.01

/** A call of one kind that costs a cent, and a provider's answer to it. */
export interface Work {
  path: string
  body: object
  output: string
  prices: object
  api_type: string
  answer: Script
  /** The same, broken off in the middle of the content. */
  cut: Script
  /** The status of an answer, where it is not 200: the call goes on as a job. */
  status?: 202
}

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='
const SAMPLES = buildWav(0.1).subarray(44)

const cutJson = (text: string): Script => [
  head(200, { 'content-type': 'application/json', 'content-length': '9999' }),
  text,
  { end: 'fin' },
]

const usage = { prompt_tokens: 10, completion_tokens: 0, total_tokens: 10 }

/** Every kind of work. */
export const WORK: Record<Kind, Work> = {
  text: {
    path: '/chat/completions',
    body: { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 1 },
    output: 'text',
    prices: { prompt: 0, completion: 0, request: 0.01 },
    api_type: 'completions',
    answer: json({
      choices: [{ index: 0, message: { content: 'Hi' }, finish_reason: 'stop' }],
      usage: { ...usage, completion_tokens: 1, total_tokens: 11 },
    }),
    cut: cutJson('{"choices":[{"index":0,"mess'),
  },
  embedding: {
    path: '/embeddings',
    body: { input: 'Hi' },
    output: 'embeddings',
    prices: { prompt: 0, completion: 0, request: 0.01 },
    api_type: 'embeddings',
    answer: json({ data: [{ index: 0, embedding: [1] }], usage }),
    cut: cutJson('{"data":[{"index":0,"embed'),
  },
  rerank: {
    path: '/rerank',
    body: { query: 'Hi', documents: ['Bye'] },
    output: 'rerank',
    prices: { prompt: 0, completion: 0, per_search_unit: 0.01 },
    api_type: 'rerank',
    answer: json({ results: [{ index: 0, relevance_score: 0.5 }] }),
    cut: cutJson('{"results":[{"index":0,"rel'),
  },
  image: {
    path: '/images',
    body: { prompt: 'A cat' },
    output: 'image',
    prices: { prompt: 0, completion: 0, per_image: 0.01 },
    api_type: 'image',
    answer: json({ created: 1, data: [{ b64_json: PNG }] }),
    cut: cutJson(`{"created":1,"data":[{"b64_json":"${PNG.slice(0, 40)}`),
  },
  speech: {
    path: '/audio/speech',
    body: { input: 'Hello, you' },
    output: 'speech',
    prices: { prompt: 0, completion: 0, per_character: 0.001 },
    api_type: 'tts',
    answer: [
      head(200, { 'content-type': 'audio/pcm', 'content-length': String(SAMPLES.length) }),
      SAMPLES,
    ],
    // What has come so far is no sound yet: later there is no way back.
    cut: [
      head(200, { 'content-type': 'audio/pcm', 'content-length': '9999' }),
      SAMPLES.subarray(0, 4),
      { end: 'fin' },
    ],
  },
  transcription: {
    path: '/audio/transcriptions',
    body: { input_audio: INPUT_AUDIO },
    output: 'transcription',
    prices: { prompt: 0, completion: 0, per_input_second: 0.1 },
    api_type: 'stt',
    answer: json({ text: 'Hi', duration: 0.1 }),
    cut: cutJson('{"text":"H'),
  },
  video: {
    path: '/videos',
    body: { prompt: 'A cat', duration: 1 },
    output: 'video',
    prices: { prompt: 0, completion: 0, per_second: 0.01 },
    api_type: 'video',
    // The answer to the call, and to the first question about its job.
    answer: json({ id: 'video-1', status: 'completed' }),
    cut: cutJson('{"id":"vid'),
    status: 202,
  },
}
