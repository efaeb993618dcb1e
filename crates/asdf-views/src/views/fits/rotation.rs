//! Rotations of the sphere.

/// Maximum number of rotations in a sequence.
const MAX_ANGLES: usize = 32;

/// A rotation, row by row.
pub(super) type Matrix = [[f64; 3]; 3];

/// Returns the rotation of a node `rotate3d`.
pub(super) fn rotation_of([phi, theta, psi]: [f64; 3], direction: &str) -> Option<Matrix> {
    use std::f64::consts::FRAC_PI_2;
    match direction {
        "native2celestial" => rotation(&[psi - FRAC_PI_2, theta - FRAC_PI_2, -(FRAC_PI_2 + phi)], "zxz"),
        "celestial2native" => rotation(&[FRAC_PI_2 + phi, FRAC_PI_2 - theta, FRAC_PI_2 - psi], "zxz"),
        axes => rotation(&[phi, theta, psi], axes),
    }
}

/// Returns a sequence of rotations of the coordinate axes, as astropy's `rotation_matrix` defines them.
pub(super) fn rotation(angles: &[f64], axes: &str) -> Option<Matrix> {
    if angles.len() != axes.len() || angles.len() > MAX_ANGLES {
        return None;
    }
    let mut all = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    for (angle, axis) in angles.iter().zip(axes.bytes()) {
        let axis = usize::from(axis.checked_sub(b'x').filter(|axis| *axis < 3)?);
        let (sin, cos) = angle.sin_cos();
        let next = (axis + 1) % 3;
        let last = (axis + 2) % 3;
        let mut one = [[0.0; 3]; 3];
        one[axis][axis] = 1.0;
        one[next][next] = cos;
        one[next][last] = sin;
        one[last][next] = -sin;
        one[last][last] = cos;
        let mut product = [[0.0; 3]; 3];
        for (row, of_one) in product.iter_mut().zip(one) {
            for (column, value) in row.iter_mut().enumerate() {
                *value = of_one.iter().zip(all).map(|(factor, of_all)| factor * of_all[column]).sum();
            }
        }
        all = product;
    }
    Some(all)
}

pub(super) fn rotated(matrix: &Matrix, vector: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| row.iter().zip(vector).map(|(factor, value)| factor * value).sum())
}

/// Returns the rotation back.
pub(super) fn inverse(matrix: &Matrix) -> Matrix {
    [0, 1, 2].map(|column| matrix.map(|row| row[column]))
}

pub(super) fn to_cartesian(longitude: f64, latitude: f64) -> [f64; 3] {
    let (sin_longitude, cos_longitude) = longitude.to_radians().sin_cos();
    let (sin_latitude, cos_latitude) = latitude.to_radians().sin_cos();
    [cos_latitude * cos_longitude, cos_latitude * sin_longitude, sin_latitude]
}

/// Returns longitude (-180 to 180) and latitude in degrees. Turns of 360 degrees do not matter on the sky.
pub(super) fn to_spherical([x, y, z]: [f64; 3]) -> [f64; 2] {
    let height = (x * x + y * y).sqrt();
    [y.atan2(x).to_degrees(), z.atan2(height).to_degrees()]
}
