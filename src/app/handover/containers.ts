import type { WarmContainers } from '../../network/containers/warm.ts'
import type { Channel } from './channel.ts'

/** The part of the gateway that has the homes of containers. */
interface HomesWorld {
  warm: WarmContainers
}

/**
 * Ends the containers that no command uses, and tells the server that has taken over which ones are
 * in use here. Each later use of one borrows it from there, and gives it back.
 */
export function giveContainers({ warm }: HomesWorld, channel: Channel): void {
  const used = warm.leave({
    // Where the other has ended, no other server uses it.
    borrow: id =>
      channel.ask('borrow', id).then(
        () => true,
        () => true,
      ),
    giveBack: id => channel.tell('return', id),
  })
  channel.tell('containers', used)
}

/** Returns what lends containers to the server before this one, one home at a time for each. */
export function takeContainers({ warm }: HomesWorld, channel: Channel) {
  const loans = new Map<string, () => void>()
  function lend(id: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    loans.set(id, resolve)
    return warm.lend(id, promise)
  }
  void channel.closed.then(() => {
    for (const end of loans.values()) end()
  })
  return {
    containers: (used: string[]) => void used.map(lend),
    borrow: lend,
    return(id: string) {
      loans.get(id)?.()
      loans.delete(id)
    },
  }
}
