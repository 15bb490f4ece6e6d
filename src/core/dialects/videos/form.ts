import { invalid } from '../../errors.ts'
import type { FormFile } from '../dialect.ts'
import { toPictureUrl } from '../form-picture.ts'
import type { VideosForm, VideosRequest } from './schema.ts'

const FIELD = 'input_reference'

/**
 * Translates a form, as OpenAI's clients send it, into the body that it stands for: its picture is
 * the first frame. A body that came as JSON is returned as it is. Throws 400 for a file that is no
 * picture, and for a picture twice.
 */
export function readVideosForm(body: VideosRequest | VideosForm, file?: FormFile): VideosRequest {
  const { seconds, [`${FIELD}[image_url]` as const]: named, ...rest } = body as VideosForm
  if (file && named != null) throw invalid(`${FIELD}: expected a file or a URL, found both`, FIELD)
  const url = file ? readPicture(file) : named
  const frame_type = 'first_frame' as const
  return {
    ...rest,
    ...(seconds == null ? {} : { duration: seconds }),
    ...(url == null
      ? {}
      : { frame_images: [{ type: 'image_url', image_url: { url }, frame_type }] }),
  }
}

function readPicture(file: FormFile): string {
  const url = toPictureUrl(file)
  if (url) return url
  throw invalid(`${FIELD}: expected a picture in PNG, JPEG, GIF or WebP`, FIELD)
}
