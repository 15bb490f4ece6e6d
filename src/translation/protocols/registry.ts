import type { Kind } from '../../language/work.ts'
import { anthropicMessages, anthropicVertex } from './anthropic-messages.ts'
import { bedrockConverse } from './bedrock-converse.ts'
import { cohereChat } from './cohere-chat.ts'
import { bedrockEmbeddings } from './embeddings/bedrock.ts'
import { cohereEmbeddings } from './embeddings/cohere.ts'
import { geminiEmbeddings } from './embeddings/gemini.ts'
import { jinaEmbeddings, openaiEmbeddings, voyageEmbeddings } from './embeddings/openai.ts'
import { gemini } from './gemini.ts'
import { bflImages } from './images/bfl.ts'
import { drawByChat } from './images/chat.ts'
import { falImages } from './images/fal.ts'
import { geminiImages } from './images/gemini.ts'
import { openaiImages, sandboxImages } from './images/openai.ts'
import { stabilityImages } from './images/stability.ts'
import { openaiChat } from './openai-chat.ts'
import { openaiResponses } from './openai-responses.ts'
import type { Protocol } from './protocol.ts'
import { bedrockRerank } from './rerank/bedrock.ts'
import { cohereRerank } from './rerank/cohere.ts'
import { nvidiaRerank } from './rerank/nvidia.ts'
import { jinaRerank, openaiRerank, voyageRerank } from './rerank/openai.ts'
import { teiRerank } from './rerank/tei.ts'
import { rankByVectors } from './rerank/vectors.ts'
import { vertexRerank } from './rerank/vertex.ts'
import { deepgramSpeech } from './speech/deepgram.ts'
import { elevenlabsSpeech } from './speech/elevenlabs.ts'
import { geminiSpeech } from './speech/gemini.ts'
import { openaiSpeech } from './speech/openai.ts'
import { deepgramTranscription } from './transcription/deepgram.ts'
import { elevenlabsTranscription } from './transcription/elevenlabs.ts'
import { geminiTranscription } from './transcription/gemini.ts'
import { openaiTranscription } from './transcription/openai.ts'
import { geminiVideos } from './videos/gemini.ts'
import { JOBS } from './videos/jobs.data.ts'
import { createJobProtocol } from './videos/jobs.ts'
import { openaiVideos } from './videos/openai.ts'

/** Every protocol, by the kind of work it does. */
export const protocols: { [K in Kind]: Record<string, Protocol<K>> } = {
  text: {
    'openai-chat': openaiChat,
    'cohere-chat': cohereChat,
    gemini,
    'anthropic-messages': anthropicMessages,
    'anthropic-vertex': anthropicVertex,
    'openai-responses': openaiResponses,
    'bedrock-converse': bedrockConverse,
    // The built-in sandbox answers like an OpenAI server. Without names, it also stands for the
    // servers that have no field for them.
    sandbox: { ...openaiChat, acceptsNames: false },
  },
  // Keyed by the text protocol's name too, so that a provider's row needs only one protocol.
  embedding: {
    'openai-chat': openaiEmbeddings,
    'cohere-chat': cohereEmbeddings,
    gemini: geminiEmbeddings,
    'bedrock-converse': bedrockEmbeddings,
    'voyage-rerank': voyageEmbeddings,
    'jina-rerank': jinaEmbeddings,
    sandbox: openaiEmbeddings,
  },
  // A model that only computes vectors ranks by them.
  rerank: {
    'openai-chat': rankByVectors(openaiEmbeddings, openaiRerank),
    'cohere-chat': rankByVectors(cohereEmbeddings, cohereRerank),
    gemini: rankByVectors(geminiEmbeddings),
    'bedrock-converse': rankByVectors(bedrockEmbeddings, bedrockRerank),
    'voyage-rerank': rankByVectors(voyageEmbeddings, voyageRerank),
    'jina-rerank': rankByVectors(jinaEmbeddings, jinaRerank),
    'nvidia-rerank': nvidiaRerank,
    'tei-rerank': teiRerank,
    'vertex-rerank': vertexRerank,
    sandbox: rankByVectors(openaiEmbeddings, openaiRerank),
  },
  image: {
    'openai-chat': openaiImages,
    gemini: geminiImages,
    'openai-responses': drawByChat(openaiResponses),
    bfl: bflImages,
    fal: falImages,
    stability: stabilityImages,
    sandbox: sandboxImages,
  },
  speech: {
    'openai-chat': openaiSpeech,
    gemini: geminiSpeech,
    elevenlabs: elevenlabsSpeech,
    deepgram: deepgramSpeech,
    sandbox: openaiSpeech,
  },
  transcription: {
    'openai-chat': openaiTranscription,
    gemini: geminiTranscription,
    elevenlabs: elevenlabsTranscription,
    deepgram: deepgramTranscription,
    sandbox: openaiTranscription,
  },
  video: {
    'openai-chat': openaiVideos,
    gemini: geminiVideos,
    ...Object.fromEntries(
      Object.entries(JOBS).map(([name, row]) => [name, createJobProtocol(row)]),
    ),
    sandbox: openaiVideos,
  },
}

/** The names of all protocols, as configs use them. */
export const protocolNames = [
  ...new Set(Object.values(protocols).flatMap(byName => Object.keys(byName))),
]
