import type { Json } from '../../../src/base/json.ts'
import type { Kind } from '../../../src/language/work.ts'
import { anthropicMessages } from '../../../src/translation/protocols/anthropic-messages.ts'
import { openaiChat } from '../../../src/translation/protocols/openai-chat.ts'
import { fakeProviders } from '../../support/fake-providers.ts'
import type { ProtocolSample } from '../protocol.ts'
import { SOUND } from './hostile.ts'

/** An answer of an OpenAI-compatible server. */
const VECTORS = {
  object: 'list',
  data: [{ object: 'embedding', index: 0, embedding: [0.5, -0.25] }],
  model: 'up',
  usage: { prompt_tokens: 1, total_tokens: 1 },
}

const openaiLike: ProtocolSample<'embedding'> = { upstreamModel: 'up', answer: VECTORS }

const createRankings = (answer: unknown, isCounted: boolean): ProtocolSample<'rerank'> => ({
  upstreamModel: 'rank-1',
  output_modalities: ['rerank'],
  answer,
  isCounted,
})

const createPictures = (
  answer: Json,
  more: Partial<ProtocolSample<'image'>> = {},
): ProtocolSample<'image'> => ({
  upstreamModel: 'draw-1',
  output_modalities: ['image'],
  isCounted: false,
  answer,
  ...more,
})

const TRANSCRIPT = {
  task: 'transcribe',
  language: 'english',
  duration: 1,
  text: 'Hello there.',
  segments: [{ id: 0, seek: 0, start: 0, end: 0.9, text: 'Hello there.', tokens: [1, 2] }],
  words: [{ word: 'Hello', start: 0, end: 0.4 }],
  usage: { type: 'duration', seconds: 1 },
}

const RESULTS = [
  { index: 1, relevance_score: 0.9 },
  { index: 0, relevance_score: 0.1 },
]
const TOKENS = { total_tokens: 12 }

/** The sample of a protocol with a fake provider, whose real providers' answers are recorded. */
function getRecordedSample(name: string): ProtocolSample<'text'> {
  const fakeProvider = fakeProviders[name]
  if (!fakeProvider) throw new Error(`${name} has no fake provider`)
  return { fakeProvider, isRecorded: true }
}

/** A sample of every protocol, by the kind of work and the protocol's name. */
export const SAMPLES: { [K in Kind]: Record<string, ProtocolSample<K>> } = {
  text: {
    'openai-chat': getRecordedSample('openai-chat'),
    'cohere-chat': getRecordedSample('cohere-chat'),
    gemini: getRecordedSample('gemini'),
    'anthropic-messages': getRecordedSample('anthropic-messages'),
    'anthropic-vertex': { readBy: anthropicMessages },
    'openai-responses': getRecordedSample('openai-responses'),
    'bedrock-converse': getRecordedSample('bedrock-converse'),
    sandbox: { readBy: openaiChat },
  },
  embedding: {
    'openai-chat': openaiLike,
    'voyage-rerank': openaiLike,
    'jina-rerank': openaiLike,
    sandbox: openaiLike,
    'cohere-chat': {
      upstreamModel: 'embed-v4.0',
      answer: {
        id: 'e-1',
        embeddings: { float: [[0.5, -0.25]] },
        meta: { billed_units: { input_tokens: 1 } },
      },
    },
    gemini: {
      upstreamModel: 'gemini-embedding-001',
      answer: { embedding: { values: [0.5, -0.25] }, usageMetadata: { promptTokenCount: 1 } },
    },
    'bedrock-converse': {
      upstreamModel: 'amazon.titan-embed-text-v2:0',
      answer: { embedding: [0.5, -0.25], inputTextTokenCount: 1 },
    },
  },
  rerank: {
    'openai-chat': createRankings({ id: 'r-1', results: RESULTS, usage: TOKENS }, true),
    'voyage-rerank': createRankings({ object: 'list', data: RESULTS, usage: TOKENS }, true),
    'jina-rerank': createRankings({ results: RESULTS, usage: TOKENS }, true),
    'cohere-chat': createRankings(
      { id: 'r-1', results: RESULTS, meta: { billed_units: { search_units: 1 } } },
      true,
    ),
    'bedrock-converse': createRankings({ results: RESULTS }, false),
    'nvidia-rerank': createRankings(
      {
        rankings: [
          { index: 1, logit: 3.5 },
          { index: 0, logit: -7.25 },
        ],
        usage: TOKENS,
      },
      true,
    ),
    'tei-rerank': createRankings(
      [
        { index: 1, score: 0.9 },
        { index: 0, score: 0.1 },
      ],
      false,
    ),
    'vertex-rerank': createRankings(
      {
        records: [
          { id: '1', score: 0.9 },
          { id: '0', score: 0.1 },
        ],
      },
      false,
    ),
    // These two rank by the vectors of the query and the documents.
    gemini: {
      upstreamModel: 'gemini-embedding-001',
      output_modalities: ['embeddings'],
      answer: {
        embeddings: [{ values: [1, 0] }, { values: [0, 1] }, { values: [1, 1] }],
        usageMetadata: { promptTokenCount: 3 },
      },
      isCounted: true,
    },
    sandbox: {
      upstreamModel: 'embed',
      output_modalities: ['embeddings'],
      answer: {
        object: 'list',
        data: [
          [1, 0],
          [0, 1],
          [1, 1],
        ].map((embedding, index) => ({ index, embedding })),
        usage: TOKENS,
      },
      isCounted: true,
    },
  },
  image: {
    'openai-chat': createPictures(
      {
        created: 1,
        data: [{ b64_json: 'aGk=' }],
        usage: { input_tokens: 5, output_tokens: 272, total_tokens: 277 },
      },
      { isCounted: true },
    ),
    gemini: createPictures(
      { predictions: [{ bytesBase64Encoded: 'aGk=', mimeType: 'image/png' }] },
      { upstreamModel: 'imagen-4.0-generate-001' },
    ),
    'openai-responses': createPictures(
      {
        id: 'resp_1',
        status: 'completed',
        output: [
          { type: 'image_generation_call', id: 'ig_1', status: 'completed', result: 'aGk=' },
        ],
        usage: { input_tokens: 5, output_tokens: 272, total_tokens: 277 },
      },
      { output_modalities: ['image', 'text'], isCounted: true },
    ),
    bfl: createPictures({
      id: 'task-1',
      status: 'Ready',
      result: { sample: 'data:image/png;base64,aGk=' },
    }),
    fal: createPictures({
      images: [{ url: 'data:image/png;base64,aGk=', content_type: 'image/png' }],
      has_nsfw_concepts: [false],
    }),
    stability: createPictures({ image: 'aGk=', finish_reason: 'SUCCESS', seed: 1 }),
    sandbox: createPictures({ created: 0, data: [{ b64_json: 'aGk=' }] }),
  },
  speech: {
    'openai-chat': { upstreamModel: 'voxtral', answer: { audio_data: SOUND.toString('base64') } },
    gemini: {
      upstreamModel: 'gemini-2.5-flash-preview-tts',
      answer: {
        candidates: [
          {
            content: {
              parts: [
                {
                  inlineData: {
                    mimeType: 'audio/L16;codec=pcm;rate=24000',
                    data: SOUND.toString('base64'),
                  },
                },
              ],
            },
          },
        ],
        usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 40 },
      },
    },
    elevenlabs: { upstreamModel: 'eleven_flash_v2_5', answer: null },
    deepgram: { upstreamModel: 'aura-2', answer: null },
    sandbox: { upstreamModel: 'speech', answer: null },
  },
  transcription: {
    'openai-chat': { upstreamModel: 'whisper-1', answer: TRANSCRIPT },
    sandbox: { upstreamModel: 'transcribe', answer: TRANSCRIPT },
    gemini: {
      upstreamModel: 'gemini-2.5-flash',
      answer: {
        candidates: [{ content: { parts: [{ text: 'Hello there.' }] }, finishReason: 'STOP' }],
        usageMetadata: { promptTokenCount: 40, candidatesTokenCount: 3 },
      },
    },
    elevenlabs: {
      upstreamModel: 'scribe_v1',
      answer: {
        language_code: 'eng',
        text: 'Hello there.',
        words: [
          { text: 'Hello', start: 0, end: 0.4, type: 'word', speaker_id: 'speaker_0' },
          { text: ' ', start: 0.4, end: 0.5, type: 'spacing' },
          { text: 'there.', start: 0.5, end: 0.9, type: 'word', speaker_id: 'speaker_0' },
        ],
      },
    },
    deepgram: {
      upstreamModel: 'nova-3',
      answer: {
        metadata: { request_id: 'r-1', duration: 1 },
        results: {
          channels: [
            {
              detected_language: 'en',
              alternatives: [
                {
                  transcript: 'Hello there.',
                  words: [{ word: 'hello', punctuated_word: 'Hello', start: 0, end: 0.4 }],
                },
              ],
            },
          ],
          utterances: [{ start: 0, end: 0.9, transcript: 'Hello there.' }],
        },
      },
    },
  },
  video: {
    'openai-chat': {
      upstreamModel: 'sora-2',
      answer: { id: 'video-1', object: 'video', status: 'queued' },
      polls: 'GET /videos/video-1',
      running: { id: 'video-1', status: 'in_progress', progress: 40 },
      failed: { id: 'video-1', status: 'failed', error: { code: 'x', message: 'Too dark' } },
      completed: { id: 'video-1', status: 'completed', seconds: '4' },
      outputs: ['/videos/video-1/content'],
    },
    sandbox: {
      upstreamModel: 'video',
      answer: { id: 'sandbox-4-1', object: 'video', status: 'queued' },
      polls: 'GET /videos/sandbox-4-1',
      running: { id: 'sandbox-4-1', status: 'queued' },
      failed: { id: 'sandbox-4-1', status: 'failed', error: { message: 'Too dark' } },
      completed: { id: 'sandbox-4-1', status: 'completed', seconds: '4' },
      outputs: ['/videos/sandbox-4-1/content'],
    },
    gemini: {
      upstreamModel: 'veo-3.1-generate-preview',
      answer: { name: 'models/veo-3.1-generate-preview/operations/video-1' },
      polls: 'GET /models/veo-3.1-generate-preview/operations/video-1',
      running: { name: 'models/veo-3.1-generate-preview/operations/video-1' },
      failed: { done: true, error: { code: 3, message: 'Too dark' } },
      completed: {
        done: true,
        response: {
          generateVideoResponse: {
            generatedSamples: [{ video: { uri: 'https://example.com/v1beta/files/a:download' } }],
          },
        },
      },
      outputs: ['https://example.com/v1beta/files/a:download'],
    },
    fal: {
      upstreamModel: 'fal-ai/kling-video/v2/master/text-to-video',
      answer: { request_id: 'video-1', status: 'IN_QUEUE' },
      polls: 'GET /fal-ai/kling-video/requests/video-1/status',
      running: { status: 'IN_PROGRESS', request_id: 'video-1' },
      failed: { status: 'COMPLETED', error: 'Too dark' },
      completed: { video: { url: 'https://v3.fal.media/a.mp4', content_type: 'video/mp4' } },
      outputs: ['https://v3.fal.media/a.mp4'],
    },
    runway: {
      upstreamModel: 'gen4_turbo',
      answer: { id: 'video-1' },
      polls: 'GET /tasks/video-1',
      running: { id: 'video-1', status: 'RUNNING', progress: 0.4 },
      failed: { id: 'video-1', status: 'FAILED', failure: 'Too dark', failureCode: 'X' },
      completed: { id: 'video-1', status: 'SUCCEEDED', output: ['https://example.com/a.mp4'] },
      outputs: ['https://example.com/a.mp4'],
    },
    luma: {
      upstreamModel: 'ray-2',
      answer: { id: 'video-1', state: 'queued' },
      polls: 'GET /generations/video-1',
      running: { id: 'video-1', state: 'dreaming' },
      failed: { id: 'video-1', state: 'failed', failure_reason: 'Too dark' },
      completed: {
        id: 'video-1',
        state: 'completed',
        assets: { video: 'https://example.com/a.mp4' },
      },
      outputs: ['https://example.com/a.mp4'],
    },
  },
}
