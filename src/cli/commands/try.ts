import { Command, Option } from 'commander'
import { addPlaceOptions, type CommonOptions } from '../options.ts'
import type { Asker } from './try/asker.ts'

interface TryOptions extends CommonOptions {
  image?: string
  speech?: string
  voice?: string
  force?: boolean
}

/** `gateway try`: asks a model, without any code. */
export const createTryCommand = () =>
  addPlaceOptions(
    new Command('try').description(
      'ask a model: its text is printed as it comes, a picture or speech becomes a file',
    ),
  )
    .argument('<model>', 'the model, by its id')
    .argument('<text>', 'the prompt, or what to read aloud; - for standard input')
    .addOption(
      new Option('--image <file>', 'draw, into a .png, .jpg, .webp or .svg').conflicts('speech'),
    )
    .option('--speech <file>', 'speak, into a .mp3, .wav, .opus, .flac, .aac or .pcm')
    .addOption(
      new Option('--voice <voice>', 'the voice that speaks; the model’s own if absent').conflicts(
        'image',
      ),
    )
    .option('--force', 'replace the file if it exists')
    .addHelpText('after', HELP)
    .action(tryModel)

const HELP = `
The call is charged and recorded like any other. A server that runs on the data directory answers it,
with a key that exists for as long as the call; without one the command calls the provider itself. Where there is no data yet, and no directory of it
is named, ./gateway-data is made.`

async function tryModel(model: string, given: string, options: TryOptions): Promise<void> {
  const { invalid } = await import('../../base/errors.ts')
  if (options.voice !== undefined && options.speech === undefined)
    throw invalid('--voice: expected --speech beside it')
  if (options.force && options.image === undefined && options.speech === undefined)
    throw invalid('--force: expected --image or --speech beside it')
  const text = await readText(given)
  const { image, speech } = options
  if (image !== undefined) await tryPicture(options, image, { model, prompt: text })
  else if (speech !== undefined) await trySpeech(options, speech, { model, input: text })
  else await tryText(options, { model, messages: [{ role: 'user', content: text }] })
}

async function readText(given: string): Promise<string> {
  const { invalid } = await import('../../base/errors.ts')
  const text = given === '-' ? (await Bun.stdin.text()).trim() : given
  if (text === '') throw invalid('text: expected some words')
  return text
}

async function tryText(options: TryOptions, body: object): Promise<void> {
  const { printStream } = await import('./try/text.ts')
  await withAsker(options, asker =>
    printStream(asker, { ...body, stream: true, stream_options: { include_usage: true } }),
  )
}

async function tryPicture(options: TryOptions, path: string, body: object): Promise<void> {
  const { checkTarget, IMAGE_FORMATS, readFormat, savePicture } = await import('./try/file.ts')
  const output_format = readFormat('--image', path, IMAGE_FORMATS)
  checkTarget('--image', path, options)
  await withAsker(options, async asker =>
    savePicture(path, await asker.askWhole('images', { ...body, output_format }), options),
  )
}

async function trySpeech(options: TryOptions, path: string, body: object): Promise<void> {
  const { checkTarget, readFormat, saveSpeech, SPEECH_FORMATS } = await import('./try/file.ts')
  const response_format = readFormat('--speech', path, SPEECH_FORMATS)
  checkTarget('--speech', path, options)
  const { voice } = options
  const asked = { ...body, response_format, ...(voice === undefined ? {} : { voice }) }
  await withAsker(options, async asker =>
    saveSpeech(path, await asker.askWhole('speech', asked), options),
  )
}

async function withAsker(
  options: CommonOptions,
  task: (asker: Asker) => Promise<void>,
): Promise<void> {
  const { openAsker } = await import('./try/asker.ts')
  await openAsker(options, task)
}
