import type { Sample } from '../dialect.ts'
import { readRefusal } from './chat.ts'

const picture = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } }
const frame = (frame_type: string) => ({ ...picture, frame_type })

/** The sample of the video API. */
export const sample: Sample = {
  body: { model: 'acme/small', prompt: 'A cat' },
  misfits: [
    [{ prompt: 7 }, 'prompt'],
    [{ prompt: 'a'.repeat(100_001) }, 'prompt'],
    [{ duration: 0 }, 'duration'],
    [{ duration: 601 }, 'duration'],
    [{ duration: 4.5 }, 'duration'],
    [{ duration: '8' }, 'duration'],
    [{ duration: -4 }, 'duration'],
    [{ resolution: '8K' }, 'resolution'],
    [{ aspect_ratio: '7:5' }, 'aspect_ratio'],
    [{ size: '0x720' }, 'size'],
    [{ size: '1280' }, 'size'],
    [{ seed: 1.5 }, 'seed'],
    [{ generate_audio: 'yes' }, 'generate_audio'],
    [{ upscale_factor: 0 }, 'upscale_factor'],
    [{ upscale_factor: 17 }, 'upscale_factor'],
    [{ creativity: 101 }, 'creativity'],
    [{ frame_images: [frame('middle_frame')] }, 'frame_images.0.frame_type'],
    [{ frame_images: Array(3).fill(frame('first_frame')) }, 'frame_images'],
    [{ input_references: Array(17).fill(picture) }, 'input_references'],
    [{ input_references: [{ type: 'text', text: 'x' }] }, 'input_references.0.type'],
    [{ callback_url: '' }, 'callback_url'],
    [{ callback_url: 7 }, 'callback_url'],
    [{ callback_url: `https://example.com/${'a'.repeat(8_192)}` }, 'callback_url'],
    [{ seconds: 4 }, 'seconds'],
    [{ 'input_reference[image_url]': 'https://example.com/a.png' }, 'input_reference[image_url]'],
  ],
  refusesUnknown: true,
  isUncounted: true,
  readWhole: ({ status }) => ({
    text: String(status),
    finish: null,
    tokens: null,
    failure: null,
    isFinished: true,
  }),
  readRefusal,
}
