import { type Json, readString } from '../../kernel/json.ts'
import { writeMp4 } from '../../kernel/mp4.ts'
import { drawPattern } from './images.ts'

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
export function answerVideos(path: string, body: Json): Response {
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
export const isAboutVideos = (path: string): boolean =>
  /^\/videos(\/|$)/.test(path.split('?')[0] ?? '')
