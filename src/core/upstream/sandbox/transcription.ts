import { type ByteSource, readWhole } from '../../kernel/byte-source.ts'
import type { Json } from '../../kernel/json.ts'
import { readWavHead } from '../../kernel/wav.ts'

/** The words of a recording stand before its sound. */
const HEAD_SIZE = 64 * 1024

/**
 * Answers like an OpenAI transcription server. Of its own recordings it knows the words, as they
 * are written in them; of others it says how large they are. The words are spread evenly over the
 * time. The same recording always gets the same text.
 */
export async function answerTranscription(_: Json, recording: ByteSource): Promise<Response> {
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
