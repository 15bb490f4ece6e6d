import { expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import type { Kind } from '../../src/language/work.ts'
import type { Protocol } from '../../src/translation/protocols/protocol.ts'
import { buildEndpoint } from '../support/call.ts'
import type { FakeProvider } from '../support/fake-providers/fake-provider.ts'
import { testBrokenAnswers } from './protocol/broken.ts'
import { testFraming } from './protocol/framing.ts'
import {
  testHostileAnswers,
  testHostilePictures,
  testHostileRankings,
  testHostileSounds,
  testHostileTranscripts,
  testHostileVectors,
} from './protocol/hostile.ts'
import { testJobs } from './protocol/jobs.ts'
import { testAnyRequest, testTextRequests } from './protocol/requests.ts'

/** What the suite must be told of a protocol: how its providers answer. */
export interface ProtocolSamples {
  text:
    | {
        /** A provider that answers in the protocol. */
        fakeProvider: FakeProvider
        /** Whether answers of real providers are recorded under the protocol's name. */
        isRecorded: boolean
      }
    /** The protocol that reads these answers: it is tested once, under its own name. */
    | { readBy: Protocol<'text'> }
  embedding: {
    /** The provider's name of a model whose vectors the protocol requests. */
    upstreamModel: string
    /** That model's answer to a call with one text. */
    answer: Json
  }
  rerank: {
    /** The provider's name of a model with which the protocol ranks. */
    upstreamModel: string
    /** What that model outputs. */
    output_modalities: string[]
    /** That model's answer to a call with two documents, of which the second is more relevant. */
    answer: unknown
    /** Whether it has a count of its own. */
    isCounted: boolean
  }
  image: {
    /** The provider's name of a model with which the protocol draws. */
    upstreamModel: string
    /** What that model outputs. */
    output_modalities: string[]
    /** That model's answer to a call for one picture: the bytes "hi" as base64. */
    answer: Json
    /** Whether it has a count of its own. */
    isCounted: boolean
  }
  speech: {
    /** The provider's name of a model with which the protocol speaks. */
    upstreamModel: string
    /** An answer in JSON with the sound `SOUND`; null where answers are bytes. */
    answer: Json | null
  }
  transcription: {
    /** The provider's name of a model with which the protocol transcribes. */
    upstreamModel: string
    /** That model's answer: the words "Hello there." */
    answer: Json
  }
  video: {
    /** The provider's name of a model with which the protocol makes videos. */
    upstreamModel: string
    /** That model's answer: the job `video-1`, or what it is called there. */
    answer: Json
    /** What is asked of a job, as method and path. */
    polls: string
    /** Answers to that: that it goes on, and that it has failed for the reason `Too dark`. */
    running: Json
    failed: Json
    /** The answer to the last request when there is a video, and where it is. */
    completed: Json
    outputs: string[]
  }
}

export type ProtocolSample<K extends Kind> = ProtocolSamples[K]

/** Tests what every protocol of a kind promises. Throws if there is no sample of it. */
export function testProtocol<K extends Kind>(
  kind: K,
  name: string,
  protocol: Protocol<K>,
  sample: ProtocolSample<K> | undefined,
): void {
  if (!sample) throw new Error(`${name} has no sample for ${kind} in test/suites/protocol`)
  if (kind === 'text') testText(name, protocol as Protocol<'text'>, sample as TextSample)
  else if (kind === 'embedding')
    testVectors(name, protocol as Protocol<'embedding'>, sample as EmbeddingSample)
  else if (kind === 'image')
    testPictures(name, protocol as Protocol<'image'>, sample as ImageSample)
  else if (kind === 'speech')
    testSounds(name, protocol as Protocol<'speech'>, sample as SpeechSample)
  else if (kind === 'transcription')
    testTranscripts(name, protocol as Protocol<'transcription'>, sample as TranscriptionSample)
  else if (kind === 'video') testVideos(name, protocol as Protocol<'video'>, sample as VideoSample)
  else testRankings(name, protocol as Protocol<'rerank'>, sample as RerankSample)
}

type TextSample = ProtocolSample<'text'>
type EmbeddingSample = ProtocolSample<'embedding'>
type RerankSample = ProtocolSample<'rerank'>
type ImageSample = ProtocolSample<'image'>
type TranscriptionSample = ProtocolSample<'transcription'>
type VideoSample = ProtocolSample<'video'>
type SpeechSample = ProtocolSample<'speech'>

function testText(name: string, protocol: Protocol<'text'>, sample: TextSample): void {
  const endpoint = buildEndpoint({ max_completion_tokens: 8_000 })
  testAnyRequest('text', name, protocol, endpoint)
  testTextRequests(name, protocol, endpoint)
  if ('readBy' in sample) testSharedReader(name, protocol, sample.readBy)
  else {
    testHostileAnswers(name, protocol, sample)
    testBrokenAnswers(name, protocol)
    if (sample.isRecorded) testFraming(name, protocol)
  }
}

function testSharedReader(
  name: string,
  protocol: Protocol<'text'>,
  { createReader, parseAnswer, readFailure, framing }: Protocol<'text'>,
): void {
  test(`${name}: its answers are read by the protocol that its sample names`, () => {
    expect(protocol.createReader).toBe(createReader)
    expect(protocol.parseAnswer).toBe(parseAnswer)
    expect(protocol.readFailure).toBe(readFailure)
    expect(protocol.framing).toBe(framing)
  })
}

function testVectors(
  name: string,
  protocol: Protocol<'embedding'>,
  { upstreamModel, answer }: EmbeddingSample,
): void {
  const endpoint = buildEndpoint({ upstreamModel })
  testAnyRequest('embedding', `${name}: vectors`, protocol, endpoint)
  testHostileVectors(`${name}: vectors`, protocol, endpoint, answer)
}

function testRankings(name: string, protocol: Protocol<'rerank'>, sample: RerankSample): void {
  const { upstreamModel, output_modalities } = sample
  const endpoint = buildEndpoint({ upstreamModel, output_modalities })
  testAnyRequest('rerank', `${name}: rankings`, protocol, endpoint)
  testHostileRankings(`${name}: rankings`, protocol, endpoint, sample)
}

function testPictures(name: string, protocol: Protocol<'image'>, sample: ImageSample): void {
  const { upstreamModel, output_modalities } = sample
  const endpoint = buildEndpoint({ upstreamModel, output_modalities, protocol: name })
  testAnyRequest('image', `${name}: pictures`, protocol, endpoint)
  testHostilePictures(`${name}: pictures`, protocol, endpoint, sample)
}

function testSounds(name: string, protocol: Protocol<'speech'>, sample: SpeechSample): void {
  const { upstreamModel } = sample
  const endpoint = buildEndpoint({ upstreamModel, output_modalities: ['speech'], protocol: name })
  testAnyRequest('speech', `${name}: speech`, protocol, endpoint)
  testHostileSounds(`${name}: speech`, protocol, endpoint, sample)
}

function testTranscripts(
  name: string,
  protocol: Protocol<'transcription'>,
  { upstreamModel, answer }: TranscriptionSample,
): void {
  const modalities = { output_modalities: ['transcription'], protocol: name }
  const endpoint = buildEndpoint({ upstreamModel, ...modalities })
  testAnyRequest('transcription', `${name}: transcription`, protocol, endpoint)
  testHostileTranscripts(`${name}: transcription`, protocol, endpoint, answer)
}

function testVideos(name: string, protocol: Protocol<'video'>, sample: VideoSample): void {
  const { upstreamModel } = sample
  const endpoint = buildEndpoint({ upstreamModel, output_modalities: ['video'], protocol: name })
  testAnyRequest('video', `${name}: videos`, protocol, endpoint)
  testJobs(`${name}: videos`, protocol, endpoint, sample)
}
