import { denied } from '../../../errors.ts'
import type { EmbeddingCall, EmbeddingInput } from '../../../language/call.ts'
import type { Reword } from '../../../language/passage.ts'
import { rewordedBlocks } from '../text/passages.ts'

/**
 * The call with other words in the place of its texts. Throws 403 for inputs in tokens: nobody here can read those, and what cannot be
 * looked at is not let through.
 */
export async function reworded(call: EmbeddingCall, reword: Reword): Promise<EmbeddingCall> {
  const inputs: EmbeddingInput[] = []
  for (const input of call.inputs) inputs.push(await rewordedInput(input, reword))
  return { ...call, inputs }
}

async function rewordedInput(input: EmbeddingInput, reword: Reword): Promise<EmbeddingInput> {
  switch (input.type) {
    case 'text':
      return { type: 'text', text: (await reword({ role: 'user', pieces: [input.text], isJson: false }))[0] ?? '' }
    case 'content':
      return { type: 'content', blocks: await rewordedBlocks(input.blocks, 'user', reword) }
    case 'tokens':
      throw denied('Request blocked by content filter: inputs given as tokens cannot be read, send them as text')
  }
}
