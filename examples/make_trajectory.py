"""Makes trajectory.gsd beside itself: a ring of beads on springs, ten frames of a tiny simulation.

Needs gsd and numpy (tests/python/requirements.txt). The same bytes come out every time.
"""

import os

import gsd.hoomd
import numpy as np

BEADS, STEP, STIFFNESS = 12, 0.02, 30.0
ring = 2 * np.pi * np.arange(BEADS) / BEADS
position = np.stack([2 * np.cos(ring), 2 * np.sin(ring), 0.4 * np.cos(3 * ring)], axis=1)
velocity = np.random.default_rng(7).normal(0, 0.5, (BEADS, 3))
velocity -= velocity.mean(axis=0)
bonds = np.array([[bead, (bead + 1) % BEADS] for bead in range(BEADS)])


def springs():
    """Returns the force on each bead, and the potential energy."""
    force = np.zeros((BEADS, 3))
    along = position[bonds[:, 1]] - position[bonds[:, 0]]
    length = np.linalg.norm(along, axis=1, keepdims=True)
    pull = STIFFNESS * (length - 1) * along / length
    np.add.at(force, bonds[:, 0], pull)
    np.add.at(force, bonds[:, 1], -pull)
    return force, float(STIFFNESS / 2 * ((length - 1) ** 2).sum())


path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trajectory.gsd")
with gsd.hoomd.open(path, "w") as trajectory:
    force, potential = springs()
    for step in range(0, 100):
        if step % 10 == 0:
            frame = gsd.hoomd.Frame()
            frame.configuration.step = step
            frame.configuration.box = [10, 10, 10, 0, 0, 0]
            frame.particles.N = BEADS
            frame.particles.types = ["A", "B"]
            frame.particles.typeid = np.arange(BEADS) % 2
            frame.particles.position = position
            frame.particles.velocity = velocity
            frame.bonds.N = BEADS
            frame.bonds.types = ["spring"]
            frame.bonds.group = bonds
            frame.log["energy/potential"] = np.array([potential])
            frame.log["energy/kinetic"] = np.array([(velocity**2).sum() / 2])
            trajectory.append(frame)
        velocity += STEP / 2 * force
        position += STEP * velocity
        force, potential = springs()
        velocity += STEP / 2 * force
