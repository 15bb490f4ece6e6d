/** The events of the gateway. Each room declares its own, next to the code that publishes them. */
// biome-ignore lint/suspicious/noEmptyInterface: the rooms fill it
export interface EventMap {}

/**
 * Publishes events to listeners. `publish` never throws and never waits: a failing listener does
 * not affect the publisher.
 */
export interface Events {
  /** Adds a listener and returns a function that removes it. */
  on<Name extends keyof EventMap>(name: Name, listener: (event: EventMap[Name]) => void): () => void
  publish<Name extends keyof EventMap>(name: Name, event: EventMap[Name]): void
}

type Listener = (event: never) => void

export function openEvents(): Events {
  const listeners = new Map<string, Listener[]>()
  const removeListener = (name: string, listener: Listener) =>
    listeners.get(name)?.toSpliced(listeners.get(name)?.indexOf(listener) ?? 0, 1) ?? []
  return {
    on(name, listener) {
      listeners.set(name, [...(listeners.get(name) ?? []), listener])
      let isOn = true
      return () => {
        if (isOn) listeners.set(name, removeListener(name, listener))
        isOn = false
      }
    },
    publish(name, event) {
      for (const listener of listeners.get(name) ?? NO_LISTENERS)
        try {
          listener(event as never)
        } catch {
          // A listener must not harm the call that published the event.
        }
    },
  }
}

const NO_LISTENERS: Listener[] = []
